"""Names of the metric families that fill a node_exporter page and that nobody here reads."""

from __future__ import annotations

GO = (
    *(f"go_gc_duration_seconds_{part}" for part in ("sum", "count")),
    *(
        f"go_memstats_{part}"
        for part in (
            "alloc_bytes", "alloc_bytes_total", "buck_hash_sys_bytes", "frees_total", "gc_sys_bytes",
            "heap_alloc_bytes", "heap_idle_bytes", "heap_inuse_bytes", "heap_objects", "heap_released_bytes",
            "heap_sys_bytes", "last_gc_time_seconds", "lookups_total", "mallocs_total", "mcache_inuse_bytes",
            "mspan_inuse_bytes", "next_gc_bytes", "other_sys_bytes", "stack_inuse_bytes", "sys_bytes",
        )
    ),
    "go_goroutines",
    "go_threads",
)  # fmt: skip
DEVICES = (
    "discarded_sectors_total", "discards_completed_total", "flush_requests_total", "io_now",
    "io_time_seconds_total",
    "read_bytes_total", "read_time_seconds_total", "reads_completed_total", "reads_merged_total",
    "write_time_seconds_total", "writes_completed_total", "writes_merged_total", "written_bytes_total",
)  # fmt: skip
FILESYSTEMS = ("avail_bytes", "device_error", "files", "files_free", "free_bytes", "readonly", "size_bytes")
NETSTAT = tuple(
    f"node_netstat_{group}_{name}"
    for group, names in (
        ("Icmp", ("InErrors", "InMsgs", "OutMsgs")),
        ("Ip", ("Forwarding",)),
        ("IpExt", ("InOctets", "OutOctets")),
        ("TcpExt", ("ListenDrops", "ListenOverflows", "SyncookiesFailed", "TCPOFOQueue", "TCPTimeouts")),
        ("Tcp", ("ActiveOpens", "CurrEstab", "InErrs", "InSegs", "OutRsts", "OutSegs", "RetransSegs")),
        ("Udp", ("InDatagrams", "InErrors", "NoPorts", "OutDatagrams", "RcvbufErrors", "SndbufErrors")),
    )
    for name in names
)
VMSTAT = tuple(f"node_vmstat_{name}" for name in ("oom_kill", "pgfault", "pgmajfault", "pgpgin", "pgpgout"))
UNITS = tuple(
    f"{kind}-{name}"
    for kind in ("systemd", "cloud", "app", "dbus", "user", "backup")
    for name in (
        "agent", "config", "cron", "final", "journald", "local", "logind", "network", "resolved", "storage",
        "timesyncd", "tmpfiles", "udevd", "update", "watch",
    )
)  # fmt: skip

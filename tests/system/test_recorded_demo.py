"""A demo whose VMs have every fault there is, and whose owners are killed, replays with no difference."""

from __future__ import annotations

import json

from app.simulation.faults import Fault
from tests.recorded_demo import check, ops, record, recorded_demo


def test_recordings_of_a_demo_with_all_faults_replay_without_difference() -> None:
    with recorded_demo(10) as demo:
        demo.until(lambda: len(demo.files()) >= 10)
        for fault in Fault:
            demo.fault(fault, 0.2 if fault is Fault.VM_DELETED else 0.5)
        followed = demo.setup.directory / "followed.jsonl"
        command = record(demo, "host/vm", 14, followed)
        demo.run_for(5)
        demo.kill_worker()
        demo.run_for(10)
        assert command.wait(60) == 0
        files = demo.files()
        counted = ops(files)
        status, line = check([*files, followed])
        scripts = [json.loads(text) for text in followed.read_text().splitlines()]
    assert line.endswith(" 0 differ")
    assert status == 0
    assert len(files) > 10
    assert counted["metrics"] > 20
    assert counted["platform.starting"] > 0
    assert all(script["steps"][0]["event"]["op"] == "new" for script in scripts)
    assert scripts[0]["steps"][0]["event"]["snapshot"]["mode"] == "observe"

from __future__ import annotations

from app.config import build_settings
from app.config.fields import RELOAD, Section, needs
from app.config.problems import model_in
from app.config.reloading import take_over
from app.config.settings import FileSettings


def test_a_value_that_may_be_taken_over_is_and_one_that_needs_a_restart_stays() -> None:
    current = build_settings({"ownership": {"buckets": 4}}, {})
    newer = build_settings(
        {
            "ownership": {"buckets": 8},
            "logging": {"level": "debug"},
            "scaling": {"defaultConfig": {"loadAverageFractionTarget": 0.5}, "requestTimeoutSeconds": 3},
        },
        {},
    )
    reloaded = take_over(current, newer)
    assert set(reloaded.taken) == {".logging.level", ".scaling.defaultConfig.loadAverageFractionTarget"}
    assert set(reloaded.left) == {".ownership.buckets", ".scaling.requestTimeoutSeconds"}
    assert reloaded.settings.logging.level == "debug"
    assert reloaded.settings.scaling.default_config.load_average_fraction_target == 0.5
    assert reloaded.settings.scaling.request_timeout_seconds == 10
    assert reloaded.settings.ownership.buckets == 4


def test_what_needs_a_restart_is_named_again_at_the_next_time_until_it_is_undone() -> None:
    current = build_settings({}, {})
    newer = build_settings({"web": {"port": 9999}}, {})
    first = take_over(current, newer)
    assert take_over(first.settings, newer).left == (".web.port",)
    assert take_over(first.settings, current).left == ()


def test_the_same_configuration_changes_nothing() -> None:
    document: dict[str, object] = {
        "redis": {"url": "redis://:pw@h:1/0"},
        "logging": {"levels": {"app.x": "info"}},
    }
    current = build_settings(document, {})
    reloaded = take_over(current, build_settings(document, {}))
    assert (reloaded.taken, reloaded.left) == ((), ())
    assert reloaded.settings == current


def test_a_secret_that_has_changed_is_named_but_not_shown() -> None:
    current = build_settings({"redis": {"url": "redis://:old-pw@h:1/0"}}, {})
    reloaded = take_over(current, build_settings({"redis": {"url": "redis://:new-pw@h:1/0"}}, {}))
    assert reloaded.left == (".redis.url",)
    assert "pw" not in repr((reloaded.taken, reloaded.left))


def test_a_section_that_comes_or_goes_is_named() -> None:
    current = build_settings({}, {})
    newer = build_settings({"billing": {"url": "http://sink:1"}}, {})
    assert take_over(current, newer).left == (".billing",)
    assert take_over(newer, current).left == (".billing",)


def test_sources_tell_where_each_value_in_force_comes_from() -> None:
    current = build_settings({"web": {"port": 9101}, "logging": {"level": "info"}}, {})
    newer = build_settings({"web": {"port": 9102}, "logging": {"levels": {"app.x": "debug"}}}, {})
    sources = take_over(current, newer).settings.sources
    assert dict(sources) == {".web.port": "file", ".logging.levels.app.x": "file"}


def marked(model: type[Section], path: str = "") -> set[str]:
    found = set()
    for field in model.model_fields.values():
        inner = model_in(field.annotation)
        if needs(field) == RELOAD:
            found.add(f"{path}.{field.alias}")
        elif inner is not None and issubclass(inner, Section):
            found |= marked(inner, f"{path}.{field.alias}")
    return found


def test_only_these_settings_are_promised_to_be_taken_over() -> None:
    """Each is applied in `app.bootstrap.reloading` or by the logs; a new one belongs there first."""
    workers = {path for path in marked(FileSettings) if not path.startswith(".logging.")}
    assert workers == {
        ".metrics.loadMetricPrefix",
        ".metrics.requestTimeoutSeconds",
        ".monitor.connectionRetryMinWaitSeconds",
        ".monitor.connectionTimeoutSeconds",
        ".monitor.deniedDownscaleFollowUpWaitSeconds",
        ".monitor.requestedUpscaleValidSeconds",
        ".monitor.retryDeniedDownscaleSeconds",
        ".monitor.retryFailedRequestSeconds",
        ".monitor.unhealthyAfterSilenceDurationSeconds",
        ".monitor.unhealthyStartupGracePeriodSeconds",
        ".scaling.applyTimeoutSeconds",
        ".scaling.defaultConfig.loadAverageFractionTarget",
        ".scaling.defaultConfig.memoryUsageFractionTarget",
        ".scaling.retryFailedRequestSeconds",
        ".scheduler.requestAtLeastEverySeconds",
        ".scheduler.retryDeniedUpscaleSeconds",
        ".scheduler.retryFailedRequestSeconds",
    }

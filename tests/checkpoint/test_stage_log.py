"""Entries of a log are read back whole or not at all."""

from sahmc.checkpoint.stage_log import StageLog

ENTRIES = {0: b"first", 1: b"second" * 4, 3: b""}


def filled(path):
    log = StageLog(path)
    for stage, content in ENTRIES.items():
        log.add(stage, content)
    return log


def test_entries_are_read_back_by_this_log_and_by_the_next(tmp_path):
    for log in (filled(tmp_path / "log"), StageLog(tmp_path / "log")):
        assert {stage: log.read(stage) for stage in ENTRIES} == ENTRIES
        assert log.read(2) is None and log.last == b""


def test_a_log_cut_anywhere_has_the_entries_before_the_cut_and_goes_on_there(tmp_path):
    path = tmp_path / "log"
    filled(path)
    content = path.read_bytes()
    for cut in range(len(content)):
        path.write_bytes(content[:cut])
        log = StageLog(path)
        found = [stage for stage in ENTRIES if log.read(stage) == ENTRIES[stage]]
        assert found == list(ENTRIES)[: len(found)] and len(found) < len(ENTRIES)
        assert all(log.read(stage) is None for stage in ENTRIES if stage not in found)
        log.add(7, b"after")
        assert StageLog(path).read(7) == b"after"


def test_a_changed_byte_is_seen(tmp_path):
    path = tmp_path / "log"
    filled(path)
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        log = StageLog(path)
        assert all(log.read(stage) in (None, ENTRIES[stage]) for stage in ENTRIES)
        assert any(log.read(stage) is None for stage in ENTRIES)


def test_a_stage_that_is_forgotten_takes_those_after_it_along(tmp_path):
    log = filled(tmp_path / "log")
    log.forget(1)
    log.add(1, b"anew")
    for one in (log, StageLog(tmp_path / "log")):
        assert [one.read(stage) for stage in (0, 1, 3)] == [b"first", b"anew", None]

"""Exports: the current branch only, streamed, and nothing hostile gets anywhere."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from core.memory.sources import exports
from core.memory.sources.chatgpt import read_chatgpt
from core.memory.sources.claude import read_claude
from core.memory.sources.exports import read_export
from core.memory.sources.raw import RawConversation, ReadLog, safe_id
from tests.core.memory.sources.making import (
    ROOT,
    chatgpt,
    claude,
    message,
    write_json,
    write_zip,
)

CHAT = chatgpt(("user", "I live in Lyon."), ("assistant", "Noted."))
OTHER = claude(("human", "I live in Paris."), ("assistant", "Fine."))


def _read(path: Path) -> tuple[list[RawConversation], ReadLog]:
    log = ReadLog()
    return list(read_export(path, log)), log


def _said(conversation: RawConversation | None) -> list[tuple[str, str]]:
    assert conversation is not None
    return [(turn.role, turn.text) for turn in conversation.turns]


def _chat(**changes: Any) -> dict[str, Any]:
    return {**chatgpt(("user", "a"), ("assistant", "b"), ("user", "c")), **changes}


# ChatGPT


def test_only_the_branch_of_the_current_node_is_read() -> None:
    chat = chatgpt(("user", "a"), ("assistant", "b"), ("user", "c"), branches={0: "x", 1: "y"})
    assert _said(read_chatgpt(chat)) == [("user", "a"), ("assistant", "b"), ("user", "c")]
    chat["current_node"] = "c1-0-old"
    assert _said(read_chatgpt(chat)) == [("user", "x")]


@pytest.mark.parametrize("current", [None, "gone", 7, [], ""])
def test_without_a_current_node_the_newest_leaf_counts(current: Any) -> None:
    chat = chatgpt(("user", "a"), ("assistant", "b"), branches={1: "y"})
    chat["current_node"] = current
    assert _said(read_chatgpt(chat)) == [("user", "a"), ("assistant", "b")]


def test_hidden_and_weightless_messages_are_left_out() -> None:
    chat = _chat()
    nodes = chat["mapping"]
    nodes["c1-0"]["message"]["metadata"] = {"is_visually_hidden_from_conversation": True}
    nodes["c1-1"]["message"]["weight"] = 0
    assert _said(read_chatgpt(chat)) == [("user", "c")]


def test_custom_instructions_are_the_users_word() -> None:
    chat = _chat()
    told = message("user", "", name="c1-0", at=None)
    told["content"] = {
        "content_type": "user_editable_context",
        "user_profile": "I am a baker.",
        "user_instructions": "Be brief.",
    }
    told["metadata"] = {
        "is_user_system_message": True,
        "is_visually_hidden_from_conversation": True,
    }
    chat["mapping"]["c1-0"]["message"] = told
    assert _said(read_chatgpt(chat))[0] == ("user", "I am a baker.\n\nBe brief.")


def test_parts_that_are_not_text_are_left_out() -> None:
    chat = _chat()
    chat["mapping"]["c1-0"]["message"]["content"] = {
        "content_type": "multimodal_text",
        "parts": [
            {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"},
            {"content_type": "audio_transcription", "text": "spoken"},
            "typed",
            7,
            None,
        ],
    }
    chat["mapping"]["c1-1"]["message"]["content"] = {"content_type": "thoughts", "thoughts": []}
    assert _said(read_chatgpt(chat)) == [("user", "spoken\ntyped"), ("user", "c")]


def test_what_goes_to_a_tool_is_context() -> None:
    chat = _chat()
    chat["mapping"]["c1-1"]["message"]["recipient"] = "bio"
    assert _said(read_chatgpt(chat))[1] == ("tool", "b")


@pytest.mark.parametrize("at", [None, float("nan"), float("inf"), -1e300, -5, 10**400, "soon", {}])
def test_missing_and_strange_dates_survive(at: Any) -> None:
    chat = _chat(create_time=at)
    chat["mapping"]["c1-0"]["message"]["create_time"] = at
    found = read_chatgpt(chat)
    assert found is not None
    assert (found.at, found.turns[0].at) == (None, None)
    assert found.turns[1].at is not None


def test_cycles_and_missing_parents_end_the_branch() -> None:
    chat = _chat()
    chat["mapping"]["c1-0"]["parent"] = "c1-2"
    assert _said(read_chatgpt(chat)) == [("user", "a"), ("assistant", "b"), ("user", "c")]
    chat["mapping"]["c1-1"]["parent"] = "gone"
    assert _said(read_chatgpt(chat)) == [("assistant", "b"), ("user", "c")]
    chat["mapping"]["c1-2"]["parent"] = "c1-2"
    assert _said(read_chatgpt(chat)) == [("user", "c")]


def test_a_branch_of_a_hundred_thousand_messages() -> None:
    chat = chatgpt(*(("user", f"m{n}") for n in range(100_000)))
    found = read_chatgpt(chat)
    assert found is not None
    assert (len(found.turns), found.turns[-1].text) == (100_000, "m99999")


# Claude


def test_only_the_branch_of_the_current_leaf_is_read() -> None:
    chat = claude(("human", "a"), ("assistant", "b"), ("human", "c"))
    edited = {**chat["chat_messages"][2], "uuid": "edited", "text": "d", "content": []}
    chat["chat_messages"].append(edited)
    assert _said(read_claude(chat))[-1] == ("user", "d")
    chat["current_leaf_message_uuid"] = "k1-2"
    assert _said(read_claude(chat)) == [("user", "a"), ("assistant", "b"), ("user", "c")]


def test_without_parents_all_messages_are_read() -> None:
    chat = claude(("human", "a"), ("assistant", "b"), ("human", "c"))
    for each in chat["chat_messages"]:
        del each["parent_message_uuid"]
    assert [text for _, text in _said(read_claude(chat))] == ["a", "b", "c"]
    for each in chat["chat_messages"]:
        each["parent_message_uuid"] = ROOT
    assert [text for _, text in _said(read_claude(chat))] == ["a", "b", "c"]


def test_a_circle_of_parents_ends() -> None:
    chat = claude(("human", "a"), ("assistant", "b"))
    chat["chat_messages"][0]["parent_message_uuid"] = "k1-1"
    assert [text for _, text in _said(read_claude(chat))] == ["a", "b"]


def test_tools_and_attachments_are_context() -> None:
    chat = claude(("human", "a"), ("assistant", "b"))
    chat["chat_messages"][0]["attachments"] = [{"extracted_content": "a letter of someone"}]
    chat["chat_messages"][1]["content"] = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "name": "search"},
        {"type": "tool_result", "content": [{"type": "text", "text": "found"}]},
        {"type": "text", "text": "b"},
    ]
    assert _said(read_claude(chat)) == [
        ("user", "a"),
        ("tool", "a letter of someone"),
        ("tool", "found"),
        ("assistant", "b"),
    ]


# Files


def test_bare_and_zipped_exports_give_the_same(tmp_path: Path) -> None:
    bare = write_json(tmp_path / "conversations.json", [CHAT, OTHER])
    packed = write_zip(tmp_path / "export.zip", [CHAT, OTHER], name="2026/conversations-000.json")
    assert _read(bare)[0] == _read(packed)[0]
    assert [each.id for each in _read(bare)[0]] == ["chatgpt:c1", "claude:k1"]


def test_an_array_in_an_object_and_one_conversation_alone(tmp_path: Path) -> None:
    whole = write_json(tmp_path / "a.json", {"conversations": [CHAT, OTHER]})
    alone = write_json(tmp_path / "b.json", CHAT)
    assert len(_read(whole)[0]) == 2
    assert len(_read(alone)[0]) == 1


def test_what_is_no_conversation_is_counted(tmp_path: Path) -> None:
    found, log = _read(write_json(tmp_path / "a.json", [CHAT, {"x": 1}, {"mapping": {}}, 7]))
    assert len(found) == 1
    assert sum(log.skipped.values()) == 2


def test_a_zip_that_is_cut_gives_what_is_whole(tmp_path: Path) -> None:
    packed = write_zip(tmp_path / "a.zip", [CHAT])
    data = packed.read_bytes()
    for size in range(0, len(data), 37):
        packed.write_bytes(data[:size])
        found, log = _read(packed)
        assert found == []
        assert log.skipped


def test_a_damaged_member_is_no_failure(tmp_path: Path) -> None:
    packed = write_zip(tmp_path / "a.zip", [CHAT, OTHER])
    data = bytearray(packed.read_bytes())
    for at in range(60, len(data), 11):
        hurt = bytearray(data)
        hurt[at] ^= 0xFF
        packed.write_bytes(hurt)
        found, _ = _read(packed)
        assert len(found) <= 2


def test_an_encrypted_member_is_left_out(tmp_path: Path) -> None:
    packed = write_zip(tmp_path / "a.zip", [CHAT])
    data = bytearray(packed.read_bytes())
    at = 0
    while (at := data.find(b"PK\x01\x02", at)) >= 0:  # the flags of every member
        data[at + 8] |= 1
        at += 4
    packed.write_bytes(data)
    found, log = _read(packed)
    assert (found, list(log.skipped)) == ([], ["a member of a ZIP that is encrypted"])


def test_unusual_compression_and_zips_within_are_left_out(tmp_path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("conversations.json", json.dumps([CHAT]))
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inner.zip", inner.getvalue())
        archive.writestr("conversations.json", json.dumps([CHAT]), zipfile.ZIP_LZMA)
    found, log = _read(path)
    assert found == []
    assert set(log.skipped) == {
        "a ZIP within a ZIP",
        "a member of a ZIP that is compressed in an unusual way",
    }


def test_names_of_members_lead_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "in" / "a.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        for name in (
            "../../conversations.json",
            "/etc/conversations.json",
            "a\\conversations.json",
        ):
            archive.writestr(name, json.dumps([CHAT]))
        archive.writestr("my-conversations.json.txt", "[]")
    assert len(_read(path)[0]) == 3
    assert [each.name for each in tmp_path.rglob("*.json*")] == []


def test_a_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "_FREE", 2**16)
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        bomb = json.dumps([CHAT]).encode()[:-1] + b"," + b" " * 2**23 + b"{}]"
        archive.writestr("conversations.json", bomb)
    found, log = _read(path)
    assert len(found) == 1
    assert "the rest of a file that unpacks to more than can be" in log.skipped


def test_too_many_members_are_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "_MOST_MEMBERS", 1)
    found, log = _read(write_zip(tmp_path / "a.zip", [CHAT]))
    assert (found, list(log.skipped)) == ([], ["a ZIP with too many members"])


def test_claims_of_four_gigabytes_are_not_believed(tmp_path: Path) -> None:
    packed = write_zip(tmp_path / "a.zip", [CHAT])
    data = bytearray(packed.read_bytes())
    at = 0
    while (at := data.find(b"PK\x01\x02", at)) >= 0:  # the unpacked size of every member
        data[at + 24 : at + 28] = b"\xfe\xff\xff\xff"
        at += 4
    packed.write_bytes(data)
    assert len(_read(packed)[0]) == 1


@pytest.mark.parametrize("key", ["sk-" + "proj-" + "a1B2" * 12, "4111" + "1111" * 3])
def test_ids_that_look_like_secrets_are_hashed(key: str) -> None:
    """An id stands in every citation."""
    assert key not in safe_id(key)
    assert safe_id(key) == safe_id(key)
    assert safe_id("6f1c0a9b-61d3-4e87-9c4d-0a1b2c3d4e5f") == "6f1c0a9b-61d3-4e87-9c4d-0a1b2c3d4e5f"

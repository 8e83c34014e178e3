"""What a model gets of a result."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kitchen
from conduit_actors import Limits, ToolResult, adapters
from conduit_actors.shaping import shape_for_llm
from provider_types import check

PNG = base64.b64encode(kitchen.PNG).decode()
SVG = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg'/>").decode()
WAV = base64.b64encode(b"RIFF$\x00\x00\x00WAVEfmt " + bytes(40)).decode()
PDF = base64.b64encode(b"%PDF-1.7\n" + bytes(50)).decode()


def shaped(*content: Any, structured: Any = None, **limits: Any) -> ToolResult:
    return shape_for_llm(ToolResult(content=content, structured=structured), Limits(**limits))


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def image(data: str, mime: str) -> dict[str, str]:
    return {"type": "image", "data": data, "mimeType": mime}


def test_images_are_called_what_they_are_and_others_become_words() -> None:
    block = shaped(image(PNG, "image/jpeg")).content[0]
    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    assert shaped(image(PNG, "image/image/png")).content[0]["mimeType"] == "image/png"
    assert shaped(image(SVG, "image/svg+xml")).text.startswith("[image: image/svg+xml")
    assert "base64" in shaped(image("not base64!", "image/png")).text
    assert "too large" in shaped(image(PNG, "image/png"), max_image_bytes=10).text
    audio = {"type": "audio", "data": WAV, "mimeType": "audio/wav"}
    assert shaped(audio).content[0]["type"] == "audio"
    assert shaped({**audio, "mimeType": "audio/midi", "data": PDF}).text.startswith("[audio:")
    blob = {"type": "resource", "resource": {"uri": "x://a", "blob": WAV, "mimeType": "application/zip"}}
    assert "x://a" in shaped(blob).text
    pdf = {"type": "resource", "resource": {"uri": "x://a", "blob": PDF}}
    assert shaped(pdf).content[0]["resource"]["mimeType"] == "application/pdf"


def test_the_limit_holds_for_everything_that_reaches_the_model_and_the_ends_are_kept() -> None:
    result = shaped(text("HEAD" + "x" * 5_000 + "TAIL"), structured={"a": "y" * 5_000}, max_result_chars=1_000)
    assert result.truncated
    assert len(json.dumps([list(result.content), result.structured])) < 1_200
    assert result.content[0]["text"].startswith("HEAD")
    assert result.content[0]["text"].endswith("TAIL")
    assert result.full.structured == {"a": "y" * 5_000}
    only = shaped(structured={"a": "y" * 5_000}, max_result_chars=1_000)
    assert only.structured is None
    assert len(only.text) <= 1_000
    with_image = shaped(text("z" * 5_000), image(PNG, "image/png"), max_result_chars=500)
    assert with_image.content[1]["data"] == PNG


def test_media_are_not_sent_a_second_time_through_structured_content() -> None:
    result = shaped(image(PNG, "image/png"), structured={"result": [image(PNG, "image/png")]})
    assert PNG not in json.dumps(result.structured)


def test_surrogates_and_nul_are_replaced_and_malformed_blocks_are_isolated() -> None:
    assert shaped(text("a\ud800b\x00c")).text == "a\ufffdb\ufffdc"
    assert shaped(text("\ud83d\ude00")).text == "\U0001f600"
    result = shaped({"type": "text"}, {"type": "weird"}, {}, text("fine"))
    assert len(result.content) == 4
    assert result.content[-1]["text"] == "fine"


APIS: list[tuple[str, Any]] = [
    ("anthropic.result", lambda outcome: adapters.anthropic.tool_result("id", outcome)),
    ("chat.result", lambda outcome: adapters.openai.tool_output("id", outcome, api="chat")),
    ("responses.result", lambda outcome: adapters.openai.tool_output("id", outcome, api="responses")),
    ("gemini.result", lambda outcome: adapters.gemini.respond("tool", "id", outcome)),
]

blocks = st.one_of(
    st.builds(text, st.text(max_size=20)),
    st.builds(image, st.sampled_from([PNG, SVG, PDF, "", "!!"]), st.sampled_from(["image/png", "image/x", ""])),
    st.builds(lambda data: {"type": "audio", "data": data, "mimeType": "audio/wav"}, st.sampled_from([WAV, "x"])),
    st.builds(lambda uri: {"type": "resource_link", "uri": uri, "name": "n"}, st.text(max_size=8)),
    st.builds(lambda t: {"type": "resource", "resource": {"uri": "a://b", "text": t}}, st.text(max_size=8)),
    st.builds(
        lambda b: {"type": "resource", "resource": {"uri": "a://b", "blob": b}}, st.sampled_from([PDF, PNG, "?"])
    ),
    st.dictionaries(
        st.sampled_from(["type", "text", "data"]), st.none() | st.integers() | st.text(max_size=5), max_size=3
    ),
)
structured = (
    st.none()
    | st.sampled_from([0, False, [], {}, "x"])
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)


@pytest.mark.parametrize(("kind", "render"), APIS)
@given(content=st.lists(blocks, max_size=4), value=structured, is_error=st.booleans(), shape=st.booleans())
def test_any_result_becomes_something_that_the_provider_takes_and_the_model_can_read(
    kind: str, render: Any, content: list[Any], value: Any, is_error: bool, shape: bool
) -> None:
    result = ToolResult(content=tuple(content), structured=value, is_error=is_error)
    if shape:
        result = shape_for_llm(result, Limits())
    answer = render(result)
    check(kind, answer)
    encoded = json.dumps(answer, ensure_ascii=False)
    encoded.encode("utf-8")
    assert render(result) == answer
    if kind == "anthropic.result":
        assert answer["content"]
        assert all(block["text"].strip() for block in answer["content"] if block["type"] == "text")
        if is_error:
            assert answer["is_error"]
            assert all(block["type"] == "text" for block in answer["content"])
    if kind == "chat.result":
        assert answer["content"].strip()
        assert answer["content"].startswith("Error: ") == is_error or not is_error


def test_structured_modes() -> None:
    result = ToolResult(content=(text("words"),), structured={"a": 1})
    output = adapters.openai.tool_output
    contents = {
        mode: output("i", result, api="chat", structured=mode)["content"]
        for mode in ("auto", "prefer", "append", "ignore")
    }  # pyright: ignore
    assert contents == {"auto": "words", "prefer": '{"a": 1}', "append": 'words\n{"a": 1}', "ignore": "words"}
    assert output("i", ToolResult(structured=0), api="chat")["content"] == "0"
    call = adapters.gemini.respond("t", None, result)["functionResponse"]
    assert call == {"name": "t", "response": {"output": {"a": 1}}}


def test_media_table() -> None:
    link = {"type": "resource_link", "uri": "myapp://x", "name": "n", "mimeType": "text/plain"}
    embedded = {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}
    pdf = {"type": "resource", "resource": {"uri": "file:///a.pdf", "blob": PDF}}
    result = ToolResult(content=(text("one"), link, embedded, image(PNG, "image/png"), pdf))
    anthropic = adapters.anthropic.tool_result("i", result)["content"]
    assert [block["type"] for block in anthropic] == ["text", "text", "text", "image", "document"]
    assert anthropic[1]["text"] == "[resource] n <myapp://x> (text/plain)"
    assert anthropic[2]["text"] == "[resource: file:///a]\ninside"
    items = adapters.openai.tool_output("i", result, api="responses")["output"]
    assert [item["type"] for item in items] == ["input_text", "input_text", "input_text", "input_image", "input_file"]
    assert (
        f"[image: image/png, {len(kitchen.PNG)} bytes]"
        in adapters.openai.tool_output("i", result, api="chat")["content"]
    )
    for answer in (anthropic, items):
        assert PNG not in json.dumps([one for one in answer if one["type"] in ("text", "input_text")])

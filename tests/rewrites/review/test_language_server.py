"""`fullgraph lsp` with a real client, over stdin and stdout."""

import asyncio
import sys

import pytest

pytest.importorskip("pygls")

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from fullgraph.rewrites.review.language_server import PAUSE
from tests.rewrites.review.scratch import MODEL

pytestmark = pytest.mark.compiles

UNICODE = MODEL.replace("if x.sum() > 0:", 'if "é𝒳" and x.sum() > 0:')
CLEAN = MODEL.replace("x.sum() > 0", "x.shape[0] > 0")


class Editor:
    """A client with one open file."""

    def __init__(self, path, encodings=None):
        self.path, self.uri, self.encodings = path, path.as_uri(), encodings
        self.client = LanguageClient("editor", "1")
        self.published = asyncio.Queue()
        self.version = 1
        self.text = ""

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def keep(params):
            self.published.put_nowait(params)

    async def __aenter__(self):
        await self.client.start_io(sys.executable, "-m", "fullgraph", "lsp", "--torch", "2.13")
        general = lsp.GeneralClientCapabilities(position_encodings=self.encodings)
        self.capabilities = await self.client.initialize_async(
            lsp.InitializeParams(lsp.ClientCapabilities(general=general))
        )
        self.client.initialized(lsp.InitializedParams())
        return self

    async def __aexit__(self, *_):
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()

    async def open(self, text):
        """Open a text that is not on disk; return its diagnostics."""
        self.text = text
        item = lsp.TextDocumentItem(self.uri, "python", self.version, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return await self.diagnostics()

    def type(self, text):
        """Replace the whole text."""
        self.text, self.version = text, self.version + 1
        name = lsp.VersionedTextDocumentIdentifier(self.version, self.uri)
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(name, [change]))

    async def diagnostics(self):
        published = await asyncio.wait_for(self.published.get(), 60)
        assert published.uri == self.uri
        return list(published.diagnostics)

    async def actions(self, span):
        name = lsp.TextDocumentIdentifier(self.uri)
        context = lsp.CodeActionContext([])
        params = lsp.CodeActionParams(name, span, context)
        return await self.client.text_document_code_action_async(params)

    async def hover(self, line, character):
        name, place = lsp.TextDocumentIdentifier(self.uri), lsp.Position(line, character)
        return await self.client.text_document_hover_async(lsp.HoverParams(name, place))

    def apply(self, action):
        """Apply an action's edits to the text and tell the server."""
        lines = self.text.split("\n")
        for edit in sorted(action.edit.changes[self.uri], key=lambda e: e.range.start.line)[::-1]:
            start, end = edit.range.start, edit.range.end
            head = lines[start.line].encode("utf-16-le")[: 2 * start.character]
            tail = lines[end.line].encode("utf-16-le")[2 * end.character :]
            new = head.decode("utf-16-le") + edit.new_text + tail.decode("utf-16-le")
            lines[start.line : end.line + 1] = [new]
        self.type("\n".join(lines))


def in_editor(tmp_path, script, **settings):
    """Run a coroutine function with an editor."""

    async def run():
        async with Editor(tmp_path / "net.py", **settings) as editor:
            await script(editor)

    asyncio.run(asyncio.wait_for(run(), 120))


def test_diagnostics_follow_what_one_types(tmp_path):
    async def script(editor):
        (found,) = await editor.open(MODEL)
        assert (found.code, found.source) == ("FGB101", "fullgraph")
        assert (found.range.start.line, found.range.start.character) == (6, 11)
        assert found.severity == lsp.DiagnosticSeverity.Warning
        editor.type(CLEAN)
        assert await editor.diagnostics() == []
        editor.type(MODEL.replace("x.sum() > 0:", "x.sum() >"))  # does not parse: stays as it was
        await asyncio.sleep(3 * PAUSE)
        assert editor.published.empty()
        editor.type(MODEL)
        assert [one.code for one in await editor.diagnostics()] == ["FGB101"]
        name = lsp.TextDocumentIdentifier(editor.uri)
        editor.client.text_document_did_close(lsp.DidCloseTextDocumentParams(name))
        assert await editor.diagnostics() == []

    in_editor(tmp_path, script)


@pytest.mark.parametrize(
    ("encoding", "width"),
    [(None, 3), (lsp.PositionEncodingKind.Utf8, 6), (lsp.PositionEncodingKind.Utf32, 2)],
)
def test_places_are_in_the_units_of_the_editor(tmp_path, encoding, width):
    async def script(editor):
        (found,) = await editor.open(UNICODE)
        start = found.range.start.character
        assert start == len('        if "" and ') + width
        assert (await editor.hover(6, start)) is not None
        assert (await editor.hover(6, start - 6)) is None

    in_editor(tmp_path, script, encodings=[encoding] if encoding else None)


def test_a_quick_fix_leaves_nothing_to_report(tmp_path):
    async def script(editor):
        (found,) = await editor.open(UNICODE)
        actions = await editor.actions(found.range)
        assert actions and all(one.kind == lsp.CodeActionKind.QuickFix for one in actions)
        assert [one.code for one in actions[0].diagnostics] == ["FGB101"]
        editor.apply(actions[-1])
        assert await editor.diagnostics() == []
        assert "  # noqa: FGB101\n" in editor.text

    in_editor(tmp_path, script)


def test_the_edit_of_a_rule_is_a_quick_fix(tmp_path):
    async def script(editor):
        printing = CLEAN.replace("        return x", '        print("é𝒳")\n        return x')
        (found,) = await editor.open(printing)
        assert found.code == "FGB201"
        first, *_ = await editor.actions(found.range)
        assert first.title.startswith("FG113 (unsafe, if ") and not first.is_preferred
        hover = await editor.hover(found.range.start.line, found.range.start.character)
        assert "## FG113 guard-output" in hover.contents.value
        editor.apply(first)
        assert await editor.diagnostics() == []
        assert "if not torch.compiler.is_compiling():" in editor.text

    in_editor(tmp_path, script)


def test_hover_shows_what_is_wrong_and_where_to_read(tmp_path):
    async def script(editor):
        await editor.open(MODEL)
        hover = await editor.hover(6, 12)
        assert hover.contents.kind == lsp.MarkupKind.Markdown
        assert "**FGB101** data-dependent branch (proved)" in hover.contents.value
        assert "torch 2.13" in hover.contents.value and "https://" in hover.contents.value
        assert await editor.hover(0, 0) is None
        assert await editor.hover(500, 0) is None

    in_editor(tmp_path, script)

"""Language server: findings while one types, quick fixes, and a rule's page on hover."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls import uris
from pygls.lsp.server import LanguageServer

from fullgraph.rewrites.check import Certainty, Finding, TextEdit
from fullgraph.rewrites.review.links import help_uri
from fullgraph.rewrites.review.open_file import OpenFile, QuickFix, hover_text, open_file
from fullgraph.rewrites.review.positions import code_points

PAUSE = 0.2
"""Seconds without a change after which the text is checked."""


class CheckServer(LanguageServer):
    """Server for open files and their findings; `settings` are keyword arguments of `check`."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__("fullgraph", metadata.version("fullgraph"))
        self.settings = settings
        self._files: dict[str, OpenFile] = {}

    def file(self, uri: str) -> OpenFile | None:
        """Return a file at its current version, checked again if it changed.

        None if the URI is not that of a file.
        """
        path = uris.to_fs_path(uri)
        if path is None or not uri.startswith("file:"):
            return None
        document = self.workspace.get_text_document(uri)
        known = self._files.get(uri)
        if known is None or known.version != document.version:
            known = open_file(document.source, Path(path), document.version, self.settings)
            self._files[uri] = known
        return known

    def publish(self, uri: str) -> None:
        """Send the findings of a file; send nothing if its text does not parse."""
        file = self.file(uri)
        if file is not None and file.result is not None:
            found = [self.diagnostic(uri, file, one) for one in file.result.findings]
            self.text_document_publish_diagnostics(
                lsp.PublishDiagnosticsParams(uri, found, file.version)
            )

    def refresh(self) -> None:
        """Check all open files again, because one was saved and the others may import it."""
        for uri in list(self._files):
            del self._files[uri]
            self.publish(uri)

    def close(self, uri: str) -> None:
        """Forget a file, and clear its findings in the editor."""
        if self._files.pop(uri, None) is not None:
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def diagnostic(self, uri: str, file: OpenFile, finding: Finding) -> lsp.Diagnostic:
        """Return a finding as an LSP diagnostic."""
        proved = finding.certainty is Certainty.PROVED
        return lsp.Diagnostic(
            range=self.range(
                uri, file, finding.line, finding.column, finding.end_line, finding.end_column
            ),
            message=finding.message,
            severity=lsp.DiagnosticSeverity.Warning if proved else lsp.DiagnosticSeverity.Hint,
            code=finding.code,
            code_description=lsp.CodeDescription(help_uri(finding.code)),
            source="fullgraph",
        )

    def code_action(self, uri: str, file: OpenFile, fix: QuickFix) -> lsp.CodeAction:
        """Return a quick fix as an LSP code action."""
        edits = [lsp.TextEdit(self._range_of(uri, file, edit), edit.text) for edit in fix.edits]
        return lsp.CodeAction(
            title=fix.title,
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=[self.diagnostic(uri, file, fix.finding)],
            is_preferred=fix.is_preferred,
            edit=lsp.WorkspaceEdit(changes={uri: edits}),
        )

    def column(self, file: OpenFile, uri: str, place: lsp.Position) -> int:
        """Return the column of an LSP position in UTF-8 bytes from 0, as `ast` counts."""
        codec = self.workspace.get_text_document(uri).position_codec
        points = codec.position_from_client_units(file.lines, place).character
        return len(file.lines[place.line][:points].encode())

    def range(
        self, uri: str, file: OpenFile, line: int, column: int, end_line: int, end_column: int
    ) -> lsp.Range:
        """Return a span of `ast` as an LSP range, in the units that the editor negotiated."""
        codec = self.workspace.get_text_document(uri).position_codec
        places = [
            codec.position_to_client_units(
                file.lines, lsp.Position(row - 1, code_points(file.line(row), place))
            )
            for row, place in ((line, column), (end_line, end_column))
        ]
        return lsp.Range(*places)

    def _range_of(self, uri: str, file: OpenFile, edit: TextEdit) -> lsp.Range:
        return self.range(uri, file, edit.line, edit.column, edit.end_line, edit.end_column)


def make_server(settings: Mapping[str, Any]) -> CheckServer:
    """Return a server with its LSP handlers; `settings` are keyword arguments of `check`."""
    server = CheckServer(settings)

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def did_open(server: CheckServer, params: lsp.DidOpenTextDocumentParams) -> None:
        server.publish(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def did_change(server: CheckServer, params: lsp.DidChangeTextDocumentParams) -> None:
        uri, version = params.text_document.uri, params.text_document.version
        await asyncio.sleep(PAUSE)
        if server.workspace.get_text_document(uri).version == version:
            server.publish(uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def did_save(server: CheckServer, params: lsp.DidSaveTextDocumentParams) -> None:
        server.refresh()

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(server: CheckServer, params: lsp.DidCloseTextDocumentParams) -> None:
        server.close(params.text_document.uri)

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION,
        lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix]),
    )
    def code_action(server: CheckServer, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri, wanted = params.text_document.uri, params.context.only
        file = server.file(uri)
        if file is None or (wanted and lsp.CodeActionKind.QuickFix not in wanted):
            return []
        fixes = file.quick_fixes(params.range.start.line + 1, params.range.end.line + 1)
        return [server.code_action(uri, file, fix) for fix in fixes]

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(server: CheckServer, params: lsp.HoverParams) -> lsp.Hover | None:
        uri, place = params.text_document.uri, params.position
        file = server.file(uri)
        if file is None or file.result is None or place.line >= len(file.lines):
            return None
        finding = file.finding_at(place.line + 1, server.column(file, uri, place))
        if finding is None:
            return None
        text = hover_text(finding, file.result)
        span = server.diagnostic(uri, file, finding).range
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), span)

    return server

"""Calls of GitHub's API: planned as data, and sent to a server that records them."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from fullgraph.compiler.errors import FullgraphError
from fullgraph.rewrites.review.github_api import Posted, plan_calls, post_review
from tests.rewrites.review.reviewed import recorded

DATA = {
    "schema": 1,
    "pull_request": 7,
    "commit": "c0ffee",
    "summary": "### torch.compile",
    "comments": [
        {"path": "net.py", "first": 7, "last": 8, "body": "A", "fingerprint": "ab12:1"},
        {"path": "net.py", "first": 9, "last": 9, "body": "B", "fingerprint": "cd34:1"},
    ],
}


def bot(body, number=1):
    return {"id": number, "body": body, "user": {"type": "Bot"}}


def plan(data=DATA, commit="c0ffee", **posted):
    return plan_calls("owner/models", data, commit, Posted(**{"head": "c0ffee", **posted}))


def test_a_review_and_a_summary():
    review, summary = plan()
    assert (review.method, review.path) == ("POST", "/repos/owner/models/pulls/7/reviews")
    assert review.body["commit_id"] == "c0ffee" and review.body["event"] == "COMMENT"
    assert review.body["comments"] == [
        {
            **{"path": "net.py", "line": 8, "side": "RIGHT", "start_line": 7},
            **{"start_side": "RIGHT", "body": "A\n\n<!-- fullgraph:ab12:1 -->"},
        },
        {"path": "net.py", "line": 9, "side": "RIGHT", "body": "B\n\n<!-- fullgraph:cd34:1 -->"},
    ]
    assert (summary.method, summary.path) == ("POST", "/repos/owner/models/issues/7/comments")


def test_what_is_posted_is_not_posted_again():
    remarks = [bot(plan()[1].body["body"], 55)]
    comments = [bot(one["body"]) for one in plan()[0].body["comments"]]
    assert plan(comments=comments, remarks=remarks) == ()
    (review,) = plan(comments=comments[:1], remarks=remarks)
    assert [one["line"] for one in review.body["comments"]] == [9]


def test_the_summary_is_changed_in_place():
    clean = {**DATA, "comments": [], "summary": ""}
    assert plan(clean) == ()
    (call,) = plan(clean, remarks=[bot("old\n<!-- fullgraph:summary -->", 55)])
    assert (call.method, call.path) == ("PATCH", "/repos/owner/models/issues/comments/55")


def test_a_person_cannot_silence_a_comment():
    forged = {"id": 1, "body": "<!-- fullgraph:ab12:1 -->", "user": {"type": "User"}}
    assert len(plan(comments=[forged])[0].body["comments"]) == 2


def test_data_of_another_commit_is_refused():
    with pytest.raises(FullgraphError, match="another commit"):
        plan(commit="decade")


def test_an_older_commit_gets_no_review():
    assert plan(head="decade") == ()


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"pull_request": "7/../../x"},
        {"summary": None},
        {"summary": "x" * 70_000},
        {"comments": [{}]},
        {"comments": [{**DATA["comments"][0], "path": "../net.py"}]},
        {"comments": [{**DATA["comments"][0], "first": True}]},
        {"comments": [{**DATA["comments"][0], "last": 3}]},
        {"comments": [{**DATA["comments"][0], "fingerprint": "--> x"}]},
    ],
)
def test_data_of_another_form_is_refused(change):
    with pytest.raises(FullgraphError, match="not stored by collect"):
        plan({**DATA, **change})


@contextmanager
def recording_server(answers):
    """A server on this machine that answers GET by path and records what else it is sent."""
    sent = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(answers[self.path.partition("?")[0]])

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            sent.append((self.command, self.path, self.headers["Authorization"], body))
            self.answer({})

        do_PATCH = do_POST

        def answer(self, data):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(data).encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", sent
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_planned_calls_are_sent():
    answers = {
        "/repos/owner/models/pulls/7": {"head": {"sha": "c0ffee"}},
        "/repos/owner/models/pulls/7/comments": [bot("<!-- fullgraph:ab12:1 -->")],
        "/repos/owner/models/issues/7/comments": [],
    }
    event = recorded("workflow_run", HEAD="c0ffee")
    with recording_server(answers) as (url, sent):
        calls = post_review(event, DATA, url, "secret")
    assert [(method, path, body) for method, path, _, body in sent] == [
        (call.method, call.path, call.body) for call in calls
    ]
    assert {token for _, _, token, _ in sent} == {"Bearer secret"}
    assert [one["line"] for one in sent[0][3]["comments"]] == [9]


def test_a_failing_request_is_one_sentence():
    event = recorded("workflow_run", HEAD="c0ffee")
    with pytest.raises(FullgraphError, match=r"GET http://127\.0\.0\.1:9/.* failed"):
        post_review(event, DATA, "http://127.0.0.1:9", "")

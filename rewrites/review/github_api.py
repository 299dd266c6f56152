"""Calls of GitHub's API for a review, planned as data and then sent."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fullgraph.compiler.errors import FullgraphError

LARGEST = 60_000
"""Largest number of characters in a comment; GitHub accepts up to 65,536."""
MOST = 50
"""Largest number of comments in one review."""
MARK = "<!-- fullgraph:{} -->"
_MARKED = re.compile(r"<!-- fullgraph:([\w:]+) -->")
SUMMARY = "summary"


@dataclass(frozen=True)
class Call:
    """One request to GitHub's API: HTTP method, path below the API's URL, and JSON body."""

    method: str
    path: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Posted:
    """What a pull request already has: its newest commit and its comments.

    The comments are JSON, as GitHub's API returns them.
    """

    head: str
    """The pull request's newest commit."""
    comments: Sequence[Mapping[str, Any]] = ()
    """Comments on lines of the diff."""
    remarks: Sequence[Mapping[str, Any]] = ()
    """Comments on the pull request as a whole."""


def plan_calls(
    repository: str, data: Mapping[str, Any], commit: str, posted: Posted
) -> tuple[Call, ...]:
    """Return the requests that post a review: one for all new comments, one for the summary.

    There are none if the pull request has a newer commit. `data` is what `collect` wrote in a job
    that ran the pull request's code, so it is not trusted. `commit` is the commit of that job
    according to GitHub. Raises FullgraphError if `data` has another form or names another commit.
    """
    _validate(data)
    if data["commit"] != commit:
        raise FullgraphError("The data is that of another commit than the job that stored it.")
    if posted.head != commit:
        return ()  # a newer commit has a review of its own
    number = data["pull_request"]
    calls = []
    known = set(_fingerprints(posted.comments))
    new = [one for one in data["comments"] if one["fingerprint"] not in known][:MOST]
    if new:
        body = {
            "commit_id": commit,
            "event": "COMMENT",
            "body": f"{len(new)} new comment{'s' * (len(new) != 1)} by `fullgraph check`.",
            "comments": [_comment(one) for one in new],
        }
        calls.append(Call("POST", f"/repos/{repository}/pulls/{number}/reviews", body))
    return (*calls, *_plan_summary(repository, number, data["summary"], posted.remarks))


def _plan_summary(
    repository: str, number: int, summary: str, remarks: Sequence[Mapping[str, Any]]
) -> tuple[Call, ...]:
    """Return the request that posts or updates the summary comment of a pull request.

    `number` is the pull request's, and `remarks` are its comments that are not on lines. The result
    is () if the posted summary is up to date, or there is nothing to post.
    """
    body = f"{summary or 'Nothing that breaks the graph.'}\n\n{MARK.format(SUMMARY)}"
    for one in _comments_of_bots(remarks):
        if MARK.format(SUMMARY) in one["body"]:
            path = f"/repos/{repository}/issues/comments/{int(one['id'])}"
            return () if one["body"] == body else (Call("PATCH", path, {"body": body}),)
    path = f"/repos/{repository}/issues/{number}/comments"
    return (Call("POST", path, {"body": body}),) if summary else ()


def _comment(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a comment as JSON for GitHub's API, on lines of the new version of its file."""
    mark = MARK.format(data["fingerprint"])
    place: dict[str, Any] = {"path": data["path"], "line": data["last"], "side": "RIGHT"}
    if data["first"] < data["last"]:
        place |= {"start_line": data["first"], "start_side": "RIGHT"}
    return {**place, "body": f"{data['body']}\n\n{mark}"}


def _fingerprints(comments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the fingerprints of our comments among `comments`; those by people do not count."""
    return [mark for one in _comments_of_bots(comments) for mark in _MARKED.findall(one["body"])]


def _comments_of_bots(comments: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the comments that bots wrote.

    A fingerprint in a person's comment must not keep us from posting ours.
    """
    return [one for one in comments if one["user"]["type"] == "Bot"]


def _validate(data: Mapping[str, Any]) -> None:
    """Raise FullgraphError unless `data` has the form that `collect` writes."""

    def need(holds: bool) -> None:
        if not holds:
            raise FullgraphError("The data is not that of a review: it was not stored by collect.")

    need(data.get("schema") == 1 and type(data.get("pull_request")) is int)
    need(isinstance(data.get("commit"), str) and isinstance(data.get("comments"), list))
    need(isinstance(data.get("summary"), str) and len(data["summary"]) <= LARGEST)
    for one in data["comments"]:
        need(isinstance(one, dict))
        need(all(isinstance(one.get(name), str) for name in ("path", "body", "fingerprint")))
        need(all(type(one.get(name)) is int for name in ("first", "last")))
        need(1 <= one["first"] <= one["last"] and len(one["body"]) <= LARGEST)
        need(re.fullmatch(r"[\w:]{1,64}", one["fingerprint"]) is not None)
        need(not one["path"].startswith("/") and ".." not in one["path"].split("/"))


def post_review(
    event: Mapping[str, Any], data: Mapping[str, Any], url: str, token: str
) -> tuple[Call, ...]:
    """Post the comments and the summary that the pull request lacks; return the calls sent.

    `event` is the `workflow_run` event after the job that stored `data`; `url` is that of GitHub's
    API. Raises FullgraphError if a request fails.
    """
    try:
        repository = str(event["repository"]["full_name"])
        commit = str(event["workflow_run"]["head_sha"])
    except (KeyError, TypeError):
        raise FullgraphError("The event is not that of a workflow run.") from None
    _validate(data)
    number = data["pull_request"]
    pull = _request("GET", f"{url}/repos/{repository}/pulls/{number}", token)
    posted = Posted(
        pull["head"]["sha"],
        _pages(f"{url}/repos/{repository}/pulls/{number}/comments", token),
        _pages(f"{url}/repos/{repository}/issues/{number}/comments", token),
    )
    calls = plan_calls(repository, data, commit, posted)
    for call in calls:
        _request(call.method, f"{url}{call.path}", token, call.body)
    return calls


def _pages(url: str, token: str) -> list[Any]:
    """Return all items of a list that GitHub's API returns in several pages.

    `url` is that of the list.
    """
    items: list[Any] = []
    for page in range(1, 100):
        new = _request("GET", f"{url}?per_page=100&page={page}", token)
        items += new
        if len(new) < 100:
            break
    return items


def _request(method: str, url: str, token: str, body: Mapping[str, Any] | None = None) -> Any:
    """Send one request and return its JSON. Raises FullgraphError if it fails."""
    request = urllib.request.Request(
        url,
        None if body is None else json.dumps(body).encode(),
        {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "X-GitHub-Api-Version": "2022-11-28",
        },
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace")[:500]
        raise FullgraphError(f"{method} {url} failed with {error.code}: {said}") from None
    except (urllib.error.URLError, ValueError) as error:
        raise FullgraphError(f"{method} {url} failed: {error}.") from None

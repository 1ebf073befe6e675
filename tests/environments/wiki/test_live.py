import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from pipeline.environments.wiki import client as client_module
from pipeline.environments.wiki.backend import Page
from pipeline.environments.wiki.live import LiveWiki
from pipeline.errors import EnvironmentFault, RecipeError
from tests.environments.cases import known_fault
from tests.environments.wiki.mediawiki import CONTACT, Answer, MediaWiki, refusal, serving


def item(title):
    return f'<li><a href="/wiki/x" title="{title}">{title}</a>, a thing</li>'


PAGES = {
    "Blue screen of death": "<div class='mw-parser-output'><p>A screen. It is blue.</p></div>",
    "Gdańsk": "<p>A city.</p><ul><li>Its port</li></ul><table><tr><td>1</td></tr></table>",
    "Valencia": f"<p>Valencia is a name of</p><ul>{''.join(map(item, 'ABCDEFG'))}</ul>",
    "Mercury": f"<p><b>Mercury</b> may refer to:</p><ul>{item('Mercury (planet)')}{item('Mercury')}</ul>",
    "Nothing": "<table><tr><td>only a table</td></tr></table>",
    "Lost (disambiguation)": "<p>Nothing is listed.</p>",
    "IPad": "<p>A tablet.</p>",
}


@pytest.fixture
def wiki():
    content = MediaWiki(
        pages=dict(PAGES),
        redirects={"BSOD": "Blue screen of death", "Danzig": "Gdańsk", "Loop": "Nowhere"},
        ambiguous={"Valencia", "Lost (disambiguation)"},
        similar=lambda title: ["One", "Two", "Three", "Four", "Five", "Six"],
    )
    with serving(content) as served:
        yield served


@pytest.fixture
def live(wiki):
    slept = []
    live = LiveWiki(user_agent=CONTACT, url=wiki.url, max_retries=3, timeout=5, sleep=slept.append)
    live.slept = slept
    yield live
    live.close()


def test_a_page_by_its_title_costs_one_request(wiki, live):
    assert live.find("Blue screen of death") == Page("Blue screen of death", "A screen. It is blue.")
    assert len(wiki.requests) == 1
    assert live.find("Gdańsk").text == "A city.\nIts port"


@pytest.mark.parametrize(
    ("title", "page"),
    [
        ("BSOD", "Blue screen of death"),
        ("Danzig", "Gdańsk"),
        ("blue_screen of death", "Blue screen of death"),
    ],
)
def test_redirects_and_normalised_titles_cost_one_request(wiki, live, title, page):
    assert live.find(title).title == page
    assert len(wiki.requests) == 1


def test_known_fault_of_redirects(live):
    given, expected = known_fault("W02")
    assert live.find(given["action"].removeprefix("Search[").removesuffix("]")).title == expected["page"]


def test_known_fault_of_signs_in_titles(wiki, live):
    given, expected = known_fault("W04")
    for entity, decoded in zip(given["entities"], expected["query_param_after_decoding"], strict=True):
        wiki.requests.clear()
        live.find(entity)
        parse, search = wiki.requests
        assert {parse["page"], search["srsearch"], search["gsrsearch"]} == {decoded}


@pytest.mark.parametrize(
    "title", ["GDANSK", "gdan\u0301sk", " gdansk ", "bLUE screen of Death", "ipad", "bsod"]
)
def test_other_spellings_are_found_by_a_near_match(wiki, live, title):
    assert isinstance(live.find(title), Page)
    assert len(wiki.requests) <= 3


def test_a_miss_names_five_similar_titles_for_two_requests(wiki, live):
    assert live.find("Atlantis") == ["One", "Two", "Three", "Four", "Five"]
    assert [asked["action"] for asked in wiki.requests] == ["parse", "query"]
    assert live.find("Loop") == ["One", "Two", "Three", "Four", "Five"]


def test_an_ambiguous_title_names_what_it_may_mean(wiki, live):
    assert live.find("Valencia") == ["A", "B", "C", "D", "E"]
    assert live.find("Mercury") == ["Mercury (planet)"]
    assert len(wiki.requests) == 2


@pytest.mark.parametrize("title", ["Nothing", "Lost (disambiguation)"])
def test_a_page_with_nothing_to_read_is_a_miss(live, title):
    assert live.find(title) == ["One", "Two", "Three", "Four", "Five"]


@pytest.mark.parametrize("title", ["", "  ", "\x00\u2028", "\u200b"])
def test_an_empty_title_asks_nothing(wiki, live, title):
    assert live.find(title) == []
    assert wiki.requests == []


@pytest.mark.parametrize(
    "title", ["x" * 100_000, "\ud800", "a|b", "{{x}}", "[x]", "a" + "\u0301\u0323" * 50_000]
)
def test_any_title_is_legal(wiki, live, title):
    assert isinstance(live.find(title), list)
    assert all(len(asked["page"]) <= 200 for asked in wiki.requests[:1])


def test_a_search_that_the_wiki_cannot_read_finds_nothing(wiki, live):
    wiki.failures = [refusal("missingtitle"), refusal("cirrussearch-regex-syntax-error")]
    assert live.find("insource:/[/") == []


def test_answers_of_older_wikis(wiki, live):
    properties = [{"name": "disambiguation", "*": ""}]
    parsed = {"title": "Ann", "text": {"*": f"<ul>{item('Ann A')}</ul>"}, "properties": properties}
    wiki.failures = [Answer({"parse": parsed})]
    assert live.find("Ann") == ["Ann A"]
    pages = {"7": {"pageid": 7, "title": "IPad"}}
    wiki.failures = [refusal("missingtitle"), Answer({"query": {"pages": pages, "search": []}})]
    assert live.find("i pad").title == "IPad"


# Who asks


@pytest.mark.parametrize("agent", ["", "curl/8.0", "me", "a@b", "me@x.org\r\nX: y", "josé@x.org"])
def test_no_contact_is_refused_before_any_request(wiki, monkeypatch, agent):
    monkeypatch.delenv("STARACT_USER_AGENT", raising=False)
    with pytest.raises(RecipeError, match=r"wiki\.user_agent.*STARACT_USER_AGENT"):
        LiveWiki(url=wiki.url, user_agent=agent)
    assert wiki.requests == []


def test_the_contact_is_sent_with_every_request(wiki, monkeypatch):
    monkeypatch.setenv("STARACT_USER_AGENT", "https://example.org/bot")
    live = LiveWiki(url=wiki.url)
    live.find("Atlantis")
    live.close()
    agents = [headers["user-agent"] for headers in wiki.headers]
    assert len(agents) == 2
    assert all(re.fullmatch(r"staract/\S+ \(https://example\.org/bot\)", agent) for agent in agents)
    assert {headers["accept-encoding"] for headers in wiki.headers} == {"gzip"}
    assert {asked["maxlag"] for asked in wiki.requests} == {"5"}


def test_a_wiki_that_refuses_the_contact(wiki, live):
    wiki.failures = [Answer(b"<html>blocked</html>", 403)]
    with pytest.raises(EnvironmentFault, match=r"403.*STARACT_USER_AGENT") as caught:
        live.find("Gdańsk")
    assert len(wiki.requests) == 1
    assert CONTACT not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["", "en.wikipedia.org", "ftp://x.org/api.php", "http://", "http://x:y/", "http://[::1", "https://me:pw@x.org/",
     "https://x.org/api.php?token=1", "https://x.org/#a"],
)  # fmt: skip
def test_addresses_that_are_none(url):
    with pytest.raises(RecipeError, match=r"wiki\.url") as caught:
        LiveWiki(url=url, user_agent=CONTACT)
    assert "pw" not in str(caught.value).replace("password", "")


# When it is busy or broken


def test_known_fault_of_a_rate_limit(wiki, live):
    given, expected = known_fault("W06")
    busy = given["mock_response"]
    wiki.failures = [Answer(busy["body"].encode(), busy["status"], busy["headers"])] * 4
    with pytest.raises(EnvironmentFault, match="429"):
        live.find("Gdańsk")
    assert live.slept == [expected["retry_after_s"]] * 3
    assert live.find("Gdańsk").title == "Gdańsk"


def test_a_date_to_wait_for(wiki, live):
    later = datetime.now(UTC) + timedelta(seconds=60)
    wiki.failures = [
        Answer(b"", 429, {"Retry-After": format_datetime(later, usegmt=True)}),
        Answer(b"", 503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        Answer(b"", 503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 -0000"}),
    ]
    assert live.find("Gdańsk").title == "Gdańsk"
    assert 50 < live.slept[0] <= 60
    assert live.slept[1:] == [0, 0]


@pytest.mark.parametrize(
    "value", ["soon", "-5", "1e9", "٣", "Wed, 99 Oct", "", "Wed, 21 Oct 99999 07:28:00 GMT"]
)
def test_a_wait_that_cannot_be_read_doubles(wiki, live, value):
    headers = {"Retry-After": value.encode().decode("latin-1")}
    wiki.failures = [Answer(b"", 503, headers), Answer(b"", 503, headers), Answer(b"", 503, headers)]
    assert live.find("Gdańsk").title == "Gdańsk"
    assert live.slept == [1, 2, 4]


@pytest.mark.parametrize("value", ["3600", "9" * 5000])
def test_a_wait_too_long_is_not_waited_for(wiki, live, value):
    wiki.failures = [Answer(b"", 429, {"Retry-After": value})]
    with pytest.raises(EnvironmentFault, match="asks to wait"):
        live.find("Gdańsk")
    assert live.slept == []
    assert len(wiki.requests) == 1


@pytest.mark.parametrize(
    "failure",
    [
        Answer(b"down", 500),
        Answer(b"down", 502),
        Answer(b"down", 503),
        Answer(b"down", 504),
        Answer(b"<html>no JSON</html>"),
        Answer(b'{"parse": {'),
        Answer(b"[" * 100_000),
        Answer([1]),
        Answer({"parse": {}}, cut=True),
        Answer(b"not gzip", headers={"Content-Encoding": "gzip"}),
        refusal("maxlag", "Waiting for a database: 7 seconds lagged"),
        refusal("ratelimited"),
        refusal("internal_api_error_DBQueryError"),
        refusal("cirrussearch-too-busy-error"),
    ],
    ids=range(14),
)
def test_what_may_pass_is_tried_again_and_then_named(wiki, live, failure):
    wiki.failures = [failure]
    assert live.find("Gdańsk") == Page("Gdańsk", "A city.\nIts port")
    assert len(live.slept) == 1
    wiki.failures = [failure] * 4
    with pytest.raises(EnvironmentFault, match=re.escape(wiki.url)):
        live.find("Gdańsk")
    assert len(live.slept) == 4


def test_a_lagging_wiki_says_how_long_to_wait(wiki, live):
    wiki.failures = [refusal("maxlag", **{"Retry-After": "5"})]
    live.find("Gdańsk")
    assert live.slept == [5]


@pytest.mark.parametrize(
    "failure",
    [
        refusal("readapidenied", "You need \x1b[31mread\u2028permission" + "x" * 5000),
        Answer({"error": "words"}),
        Answer({"error": {"code": 7}}),
        Answer({"parse": {"title": "Gdańsk"}}),
        Answer({"parse": 3}),
        Answer({}),
        Answer(b"", 404),
        Answer(b"", 301, {"Location": "http://127.0.0.1:1/"}),
    ],
    ids=range(8),
)
def test_what_will_not_pass_is_named_at_once(wiki, live, failure):
    wiki.failures = [failure]
    with pytest.raises(EnvironmentFault) as caught:
        live.find("Gdańsk")
    assert live.slept == []
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


def test_search_answers_of_any_shape(wiki, live):
    for query in (
        None,
        3,
        [],
        {"search": 3},
        {"search": [None, {"title": 3}, {"title": " "}, {"title": "A"}] * 2},
    ):
        wiki.failures = [refusal("missingtitle"), Answer({"query": query})]
        assert live.find("Atlantis") in ([], ["A"])


@pytest.mark.parametrize("late", [{"delay": 0.6}, {"drip": 0.05}])
def test_a_late_answer(wiki, late):
    wiki.failures = [Answer({"parse": {"title": "Gdańsk", "text": "x"}}, **late)]
    if "drip" in late:
        wiki.failures[0].headers["Content-Encoding"] = "identity"
    live = LiveWiki(url=wiki.url, user_agent=CONTACT, timeout=0.3, max_retries=0)
    with pytest.raises(EnvironmentFault, match=r"did not answer within 0\.3 seconds"):
        live.find("Gdańsk")
    live.close()


def test_an_endless_answer(wiki, live, monkeypatch):
    monkeypatch.setattr(client_module, "MAX_BYTES", 10_000)
    wiki.failures = [Answer({"parse": {"text": "x" * 1_000_000}})]
    with pytest.raises(EnvironmentFault, match="more than 10000 bytes"):
        live.find("Gdańsk")


def test_a_wiki_that_is_gone():
    with serving(MediaWiki()) as gone:
        url = gone.url
    live = LiveWiki(url=url, user_agent=CONTACT, max_retries=1, sleep=lambda seconds: None)
    with pytest.raises(EnvironmentFault, match="cannot be reached"):
        live.find("Gdańsk")
    live.close()
    with pytest.raises(EnvironmentFault, match="cannot be asked"):
        live.find("Gdańsk")


def test_requests_to_one_host_are_serial_whoever_asks(wiki):
    wiki.delay = 0.02
    lives = [LiveWiki(url=wiki.url, user_agent=CONTACT) for _ in range(2)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: lives[n % 2].find(["Gdańsk", "BSOD", "Atlantis"][n % 3]), range(24)))
    for live in lives:
        live.close()
    assert wiki.most_at_once == 1
    assert len(found) == 24
    assert len(wiki.requests) == 32


# What is recorded


def record(wiki, cache, titles):
    live = LiveWiki(cache, url=wiki.url, user_agent=CONTACT, sleep=lambda seconds: None)
    found = {title: live.find(title) for title in titles}
    live.close()
    return found, live.version


TITLES = ["Gdańsk", "danzig", "BSOD", "Valencia", "Atlantis", "Mercury", "  IPAD", "C++"]


def test_a_recorded_run_is_replayed_without_the_wiki(wiki, tmp_path, monkeypatch):
    found, version = record(wiki, tmp_path, TITLES)
    monkeypatch.delenv("STARACT_USER_AGENT", raising=False)
    replay = LiveWiki(tmp_path, offline=True, url=wiki.url)
    asked = len(wiki.requests)
    assert {title: replay.find(title) for title in reversed(TITLES)} == found
    assert replay.version == version
    assert len(wiki.requests) == asked
    with pytest.raises(EnvironmentFault, match=r"'Oslo' is recorded in .* offline: record it with"):
        replay.find("Oslo")
    replay.close()


def test_a_replay_with_the_server_stopped(tmp_path):
    with serving(MediaWiki(pages=dict(PAGES))) as wiki:
        found, _ = record(wiki, tmp_path, TITLES)
    replay = LiveWiki(tmp_path, offline=True, url=wiki.url)
    assert {title: replay.find(title) for title in TITLES} == found


def test_a_recorded_answer_is_not_asked_for_again(wiki, tmp_path):
    found, _ = record(wiki, tmp_path, TITLES)
    asked = len(wiki.requests)
    wiki.pages["Gdańsk"] = "<p>Changed.</p>"
    assert record(wiki, tmp_path, TITLES)[0] == found
    assert len(wiki.requests) == asked


def test_threads_that_search_one_title_ask_once(wiki, tmp_path):
    wiki.delay = 0.02
    live = LiveWiki(tmp_path, url=wiki.url, user_agent=CONTACT)
    start = threading.Barrier(8)

    def search(_):
        start.wait()
        return live.find("Gdańsk")

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(search, range(8))) == {Page("Gdańsk", "A city.\nIts port")}
    live.close()
    assert len(wiki.requests) == 1


def test_a_failure_is_not_recorded(wiki, tmp_path):
    wiki.failures = [Answer(b"", 404)]
    with pytest.raises(EnvironmentFault):
        record(wiki, tmp_path, ["Gdańsk"])
    assert record(wiki, tmp_path, ["Gdańsk"])[0]["Gdańsk"].title == "Gdańsk"


def test_a_damaged_answer_is_asked_for_again_or_named(wiki, tmp_path):
    found, _ = record(wiki, tmp_path, ["Gdańsk"])
    (entry,) = tmp_path.rglob("*.json")
    whole = entry.read_bytes()
    entry.write_bytes(whole[:-30])
    with pytest.raises(EnvironmentFault, match="damaged"):
        LiveWiki(tmp_path, offline=True, url=wiki.url).find("Gdańsk")
    assert record(wiki, tmp_path, ["Gdańsk"])[0] == found
    assert entry.read_bytes() == whole


def test_nothing_of_who_asked_is_recorded(wiki, tmp_path):
    record(wiki, tmp_path, TITLES)
    assert all(CONTACT.encode() not in path.read_bytes() for path in tmp_path.rglob("*.json"))


@pytest.mark.parametrize("folder", [None, "missing"])
def test_offline_without_a_recorded_cache(tmp_path, folder):
    with pytest.raises(EnvironmentFault, match=r"offline.*wiki\.cache"):
        LiveWiki(tmp_path / folder if folder else None, offline=True)


def test_the_version_tells_the_wiki(tmp_path):
    german = "https://de.wikipedia.org/w/api.php"
    versions = {LiveWiki(tmp_path, offline=True, url=url).version for url in (german, german)}
    assert len(versions) == 1
    assert LiveWiki(tmp_path, offline=True).version not in versions

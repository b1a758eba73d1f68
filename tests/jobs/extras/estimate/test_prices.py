"""`prices`: the one command that refreshes prices, against a server in the documented form."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from common.prices import read_price_list
from jobs.azure import node_prices
from jobs.cli import main
from jobs.extras.estimate.prices import PricesOptions, ask_prices

NDV2 = "Standard_ND40rs_v2"


@pytest.fixture
def retail(tmp_path, monkeypatch):
    """The address of a price list, whose answers have both meters in the currency asked for."""
    asked = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            query = parse_qs(urlsplit(self.path).query)
            asked.append({**query, "user-agent": [self.headers["User-Agent"]]})
            currency, wanted = query["currencyCode"][0].strip("'"), query["$filter"][0]
            items = [
                {
                    "armSkuName": NDV2,
                    "retailPrice": amount,
                    "unitOfMeasure": "1 Hour",
                    "armRegionName": "westeurope",
                    "type": "Consumption",
                    "meterName": meter,
                    "productName": "NDv2",
                    "currencyCode": currency,
                }
                for meter, amount in (("ND40rs v2", 25.0), ("ND40rs v2 Spot", 3.0))
                if NDV2 in wanted and "'westeurope'" in wanted
            ]
            content = json.dumps({"Items": items, "NextPageLink": None}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            """Print nothing."""

    folder = tmp_path / "prices"
    monkeypatch.setattr(node_prices.ask, "__defaults__", (folder, None))
    monkeypatch.setattr(node_prices.known, "__defaults__", (None, folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/api/retail/prices", asked, folder
    server.shutdown()
    server.server_close()
    thread.join()


def test_one_command_stores_both_meters_with_region_currency_and_date(retail, capsys):
    address, asked, folder = retail
    options = PricesOptions("westeurope", "EUR", address)
    assert ask_prices(options, None, as_json=False) == 0
    shown = capsys.readouterr().out
    assert "25 EUR" in shown
    assert "no price in westeurope: Standard_ND96asr_v4" in shown
    assert {query["currencyCode"][0] for query in asked} == {"'EUR'"}
    stored = read_price_list(folder / "westeurope.json")
    assert stored.region == "westeurope"
    assert {kind[1]: price.amount for kind, price in stored.prices.items()} == {
        "Dedicated": 25.0, "LowPriority": 3.0,
    }  # fmt: skip
    assert all(price.source.date.startswith("20") for price in stored.prices.values())


def test_every_request_names_the_product(retail):
    address, asked, _ = retail
    ask_prices(PricesOptions("westeurope", "EUR", address), None, as_json=True)
    assert {query["user-agent"][0].split()[0] for query in asked} == {"ml-azure-horovod"}


def test_a_plan_of_the_region_uses_them_and_another_region_does_not(retail, capsys):
    address, _, _ = retail
    ask_prices(PricesOptions("westeurope", "EUR", address), None, as_json=True)
    capsys.readouterr()
    for region, currency in (("westeurope", "EUR"), ("mars", None)):
        assert main(["plan", "--region", region, "--json"]) == 0
        choices = json.loads(capsys.readouterr().out)["choices"]
        assert {one["currency"] for one in choices} - {None} == ({currency} - {None})


def test_a_region_has_to_be_named(capsys):
    assert main(["prices"]) != 0
    assert "--region: is missing" in capsys.readouterr().err

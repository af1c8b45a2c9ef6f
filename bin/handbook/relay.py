"""Passes what a hook of assetlog gets on to Slack, ntfy, Alertmanager or a ping URL like that of Healthchecks.

ALARM_FORM=slack ALARM_URL=https://hooks.slack.com/services/... python3 relay.py
"""
import http.server, json, os, urllib.error, urllib.request

FORM, URL = os.environ["ALARM_FORM"], os.environ["ALARM_URL"]


def describe(event, alarm):
    what = f'{"/".join(event["asset_key"])}: {event.get("check_name", "")}'
    if alarm["on"] == "stale":
        return f'{what}no event since {alarm["since"]}'
    text = f'{what} {"passes" if event["passed"] else "failed"} ({event["severity"]})'
    before = alarm.get("before")
    return text if before is None else f'{text}, after {before["in_a_row"]} other results since {before["since"]}'


def slack(event, alarm, text):
    return URL, {"text": text}


def ntfy(event, alarm, text):  # ALARM_URL=https://ntfy.sh
    priority = 3 if event.get("passed") else 4
    return URL, {"topic": os.environ["ALARM_TOPIC"], "message": text, "priority": priority}


def alertmanager(event, alarm, text):  # ALARM_URL=http://127.0.0.1:9093/api/v2/alerts
    labels = {"alertname": "AssetlogCheck", "asset": "/".join(event["asset_key"]), "check": event.get("check_name", "")}
    alert = {"labels": labels, "annotations": {"summary": text}}
    since = alarm.get("since", event.get("time"))
    if event.get("passed"):
        before = alarm.get("before", alarm)
        alert |= {"startsAt": before.get("since", since), "endsAt": since}
    else:
        alert |= {"startsAt": since, "endsAt": "2100-01-01T00:00:00Z"}
    if alarm["on"] == "stale":
        alert["labels"]["alertname"] = "AssetlogStale"
        del alert["endsAt"]  # it ends by itself, after resolve_timeout
    return URL, [alert]


def ping(event, alarm, text):  # ALARM_URL=https://hc-ping.com/UUID, one for each check
    return URL + ("" if event.get("passed") else "/fail"), text


class Relay(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        alarm = event.get("alarm", {"on": "failed"})
        url, body = globals()[FORM](event, alarm, describe(event, alarm))
        is_text = isinstance(body, str)
        data = (body if is_text else json.dumps(body)).encode()
        kind = "text/plain; charset=utf-8" if is_text else "application/json"
        request = urllib.request.Request(url, data, {"Content-Type": kind})
        try:
            status = urllib.request.urlopen(request, timeout=20).status
        except urllib.error.HTTPError as error:
            status = error.code
        except OSError:
            status = 503
        self.send_response(status)
        self.end_headers()


if __name__ == "__main__":
    http.server.HTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8080"))), Relay).serve_forever()

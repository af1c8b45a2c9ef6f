"""Passes what a hook of assetlog gets on to Slack, ntfy, Alertmanager or a ping URL like that of Healthchecks.

ALARM_FORM=slack ALARM_URL=https://hooks.slack.com/services/... python3 relay.py
"""
import datetime, http.server, json, os, urllib.error, urllib.request

FORM, URL = os.environ["ALARM_FORM"], os.environ["ALARM_URL"]


def is_end(event, alarm):
    return alarm["on"] in ("recovered", "fresh") or event.get("passed", False)


def describe(event, alarm):
    what = "/".join(event["asset_key"])
    if alarm["on"] == "stale":
        return f'{what}: no event since {alarm["since"]}'
    if alarm["on"] == "fresh":
        return f'{what}: no longer silent ({alarm["because"]}), since {alarm["before"]["since"]}'
    partition = f', {event["partition"]}' if "partition" in event else ""
    what = f'{what}: {event["check_name"]}'
    if alarm["on"] == "recovered":
        return f'{what} no longer fails ({alarm["because"]}){partition}, since {alarm["before"]["since"]}'
    return f'{what} {"passes" if is_end(event, alarm) else "failed"} ({event["severity"]}){partition}'


def slack(event, alarm, text):
    return URL, {"text": text}


def ntfy(event, alarm, text):  # ALARM_URL=https://ntfy.sh
    priority = 3 if is_end(event, alarm) else 4
    return URL, {"topic": os.environ["ALARM_TOPIC"], "message": text, "priority": priority}


def alertmanager(event, alarm, text):  # ALARM_URL=http://127.0.0.1:9093/api/v2/alerts
    kind = "AssetlogStale" if alarm["on"] in ("stale", "fresh") else "AssetlogCheck"
    labels = {"alertname": kind, "asset": "/".join(event["asset_key"])}
    names = {"deployment": "deployment", "check_name": "check", "partition": "partition"}
    labels |= {label: event[name] for name, label in names.items() if name in event}
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    starts = alarm.get("before", alarm).get("since", event.get("time", now))
    ends = now if is_end(event, alarm) else "2100-01-01T00:00:00Z"
    return URL, [{"labels": labels, "annotations": {"summary": text}, "startsAt": starts, "endsAt": ends}]


def ping(event, alarm, text):  # ALARM_URL=https://hc-ping.com/UUID, one for each check
    return URL + ("" if is_end(event, alarm) else "/fail"), text


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

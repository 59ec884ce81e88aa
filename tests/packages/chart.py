"""Checks the Helm chart: lint, and its manifests with and without monitoring against the schemas of Kubernetes. Writes
the rules of its PrometheusRule to a file, for promtool.

    chart.py CHART RULES VERSION
"""

import pathlib
import sys

import helm_python
import kubernetes_validate
import yaml

PLAIN = {"Service", "StatefulSet", "NetworkPolicy"}
MONITORING = {"ServiceMonitor", "PrometheusRule"}  # of the Prometheus operator, whose schemas are not there

LINT_INFO = 1


def render(folder, values, name="pccl-master"):
    with helm_python.Chart.load(folder) as chart:
        texts = chart.render(values, name=name, namespace="prod").values()
    things = [thing for text in texts for thing in yaml.safe_load_all(text) if thing]
    for thing in things:
        if thing["kind"] not in MONITORING:
            kubernetes_validate.validate(thing, kubernetes_validate.latest_version(), strict=True)
    return {thing["kind"]: thing for thing in things}


def container(things):
    return things["StatefulSet"]["spec"]["template"]["spec"]["containers"][0]


def variables(things):
    return {variable["name"]: variable["value"] for variable in container(things)["env"]}


def check(condition, words):
    if not condition:
        sys.exit(f"chart.py: {words}")


def main(folder, rules, version):
    found = helm_python.lint(folder)
    check(not found["errors"], f"lint: {found}")
    check(all(message["severity"] == LINT_INFO for message in found["messages"]), f"lint: {found}")

    plain = render(folder, {}, name="other")
    check(plain.keys() == PLAIN, f"rendered: {plain.keys()}")
    check({thing["metadata"]["name"] for thing in plain.values()} == {"other"}, "names are not the release's")
    check(container(plain)["image"].endswith(f":{version}-debian"), f"image: {container(plain)['image']}")
    check("PCCL_HTTP" not in variables(plain), f"metrics are on: {variables(plain)}")

    values = {
        "metrics": {"enabled": True, "serviceMonitor": True, "rules": True},
        "parameters": {"PCCL_SILENCE_MS": "30000"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "nodeSelector": {"disk": "ssd"},
    }
    full = render(folder, values)
    check(full.keys() == PLAIN | MONITORING, f"rendered: {full.keys()}")
    check(variables(full)["PCCL_SILENCE_MS"] == "30000", f"parameters: {variables(full)}")
    ports = {port["name"] for port in full["Service"]["spec"]["ports"]}
    endpoint = full["ServiceMonitor"]["spec"]["endpoints"][0]
    check(endpoint["port"] in ports, f"the monitor's port {endpoint['port']} is not among {ports}")
    selected = full["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    check(selected.items() <= full["Service"]["metadata"]["labels"].items(), "the monitor does not select the service")
    open_ports = {port["port"] for rule in full["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"]}
    check(open_ports == {port["port"] for port in full["Service"]["spec"]["ports"]}, f"policy: {open_ports}")
    pathlib.Path(rules).write_text(yaml.safe_dump(full["PrometheusRule"]["spec"]), encoding="utf-8")
    print(f"{folder}: lint and {len(plain) + len(full)} rendered manifests are good")


main(*sys.argv[1:])

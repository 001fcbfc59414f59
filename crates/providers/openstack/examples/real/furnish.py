"""Makes what machines need in a cloud that has just begun, and writes a clouds.yaml. Arguments: folder."""
import json, sys, time, urllib.error, urllib.request

K = "http://127.0.0.1:35000/v3"
TOKEN = None


def call(method, url, body=None, kind="application/json", version=None):
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    headers = {"content-type": kind}
    if TOKEN:
        headers["x-auth-token"] = TOKEN
    if version:
        headers["openstack-api-version"] = version
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, method=method, data=data, headers=headers))
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{method} {url}: {error.code} {error.read().decode()}") from None
    text = answer.read()
    return answer.headers, json.loads(text) if text.startswith(b"{") else None


def login():
    user = {"name": "admin", "password": "proof", "domain": {"id": "default"}}
    scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
    identity = {"methods": ["password"], "password": {"user": user}}
    headers, body = call("POST", K + "/auth/tokens", {"auth": {"identity": identity, "scope": scope}})
    return headers["x-subject-token"], body["token"]


TOKEN, ABOUT = login()
NOVA, NEUTRON, GLANCE = "http://127.0.0.1:35774/v2.1", "http://127.0.0.1:35696/v2.0", "http://127.0.0.1:35292/v2"
for _ in range(120):
    if call("GET", NOVA + "/os-hypervisors")[1]["hypervisors"]:
        break
    time.sleep(1)
for name, ram, number in [("m1.large", 512, "2"), ("m1.huge", 900000, "3")]:
    call("POST", NOVA + "/flavors", {"flavor": {"id": number, "name": name, "vcpus": 1, "ram": ram, "disk": 1}})
quotas = {"instances": 100, "cores": 100, "ram": 1000000}
call("PUT", f"{NOVA}/os-quota-sets/{ABOUT['project']['id']}", {"quota_set": quotas})
image = call("POST", GLANCE + "/images", {"name": "base", "disk_format": "raw", "container_format": "bare"})[1]["id"]
call("PUT", f"{GLANCE}/images/{image}/file", b"x" * 1024, "application/octet-stream")
network = call("POST", NEUTRON + "/networks", {"network": {"name": "nodes"}})[1]["network"]["id"]
subnet = {"name": "nodes-v4", "network_id": network, "cidr": "10.0.0.0/24", "ip_version": 4}
subnet = call("POST", NEUTRON + "/subnets", {"subnet": subnet})[1]["subnet"]["id"]
call("PUT", f"{NEUTRON}/subnets/{subnet}/tags", {"tags": ["of=nodes"]})
group = call("POST", NEUTRON + "/security-groups", {"security_group": {"name": "worker"}})[1]["security_group"]["id"]
outside = call("POST", NEUTRON + "/networks", {"network": {"name": "outside", "router:external": True}})[1]["network"]["id"]
call("POST", NEUTRON + "/subnets", {"subnet": {"network_id": outside, "cidr": "203.0.113.0/24", "ip_version": 4, "enable_dhcp": False}})
router = call("POST", NEUTRON + "/routers", {"router": {"name": "r", "external_gateway_info": {"network_id": outside}}})[1]["router"]["id"]
call("PUT", f"{NEUTRON}/routers/{router}/add_router_interface", {"subnet_id": subnet})
floating = call("POST", NEUTRON + "/floatingips", {"floatingip": {"floating_network_id": outside}})[1]["floatingip"]
credential = {"name": "machines", "roles": [{"name": "admin"}]}
credential = call("POST", f"{K}/users/{ABOUT['user']['id']}/application_credentials", {"application_credential": credential})[1]["application_credential"]
auth = {"auth_url": K, "application_credential_id": credential["id"], "application_credential_secret": credential["secret"]}
password = {"auth_url": K, "username": "admin", "password": "proof", "project_name": "admin", "user_domain_name": "Default", "project_domain_name": "Default"}
clouds = {"openstack": {"auth_type": "v3applicationcredential", "auth": auth, "region_name": "one"}, "password": {"auth": password, "region_name": "one"}}
with open(sys.argv[1] + "/clouds.yaml", "w") as file:
    json.dump({"clouds": clouds}, file)
with open(sys.argv[1] + "/facts.json", "w") as file:
    json.dump({"network": network, "subnet": subnet, "group": group, "floating": floating["floating_ip_address"], "token": TOKEN, "project": ABOUT["project"]["id"]}, file)

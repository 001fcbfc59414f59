#!/bin/bash
# Keystone, placement, glance, neutron and nova (fake driver) on loopback, with sqlite and rabbitmq.
# Arguments: a Python environment with the services, and a folder for their data, in which `pids` lists what was started.
set -eu
HERE=$(cd "$(dirname "$0")" && pwd); VENV=$1; RUN=$2
rm -rf "$RUN"; mkdir -p "$RUN"/{log,images,lock,keys,mq}; cd "$RUN"
export PATH=$VENV/bin:$PATH OS_AUTH_URL=http://127.0.0.1:35000/v3
: > pids
start() { name=$1; shift; "$@" > log/$name.log 2>&1 & echo $! >> pids; }
wait_for() { for _ in $(seq 240); do curl -s -o /dev/null "$1" && return 0; sleep 0.5; done; echo "nobody answers at $1" >&2; return 1; }
export HOME=$RUN/mq RABBITMQ_NODENAME=proof@localhost RABBITMQ_NODE_PORT=35672 RABBITMQ_DIST_PORT=35673 RABBITMQ_MNESIA_BASE=$RUN/mq RABBITMQ_LOG_BASE=$RUN/log \
  ERL_EPMD_PORT=35674 ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_PID_FILE=$RUN/mq/pid RABBITMQ_ENABLED_PLUGINS_FILE=$RUN/mq/plugins
start rabbit /usr/lib/rabbitmq/bin/rabbitmq-server
MQ=rabbit://guest:guest@127.0.0.1:35672/
auth() { cat <<T
[keystone_authtoken]
www_authenticate_uri = http://127.0.0.1:35000
auth_url = http://127.0.0.1:35000/v3
auth_type = password
project_domain_name = Default
user_domain_name = Default
project_name = admin
username = admin
password = proof
memcached_servers =
service_token_roles = admin
T
}
client() { echo "[$1]"; auth | sed 1d; echo region_name = one; }
cat > keystone.conf <<T
[database]
connection = sqlite:///$RUN/keystone.db
[token]
provider = fernet
[fernet_tokens]
key_repository = $RUN/keys/fernet
[credential]
key_repository = $RUN/keys/credential
[fernet_receipts]
key_repository = $RUN/keys/fernet
T
cat > placement.conf <<T
[api]
auth_strategy = keystone
[placement_database]
connection = sqlite:///$RUN/placement.db
sync_on_startup = true
$(auth)
T
cat > glance-api.conf <<T
[DEFAULT]
enabled_backends = file:file
worker_self_reference_url = http://127.0.0.1:35292
[database]
connection = sqlite:///$RUN/glance.db
[glance_store]
default_backend = file
[file]
filesystem_store_datadir = $RUN/images
[paste_deploy]
flavor = keystone
config_file = $VENV/etc/glance/glance-api-paste.ini
[oslo_policy]
enforce_new_defaults = false
$(auth)
T
cat > neutron.conf <<T
[DEFAULT]
core_plugin = ml2
service_plugins = router,trunk,tag,port_forwarding
transport_url = $MQ
auth_strategy = keystone
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
api_paste_config = $VENV/etc/neutron/api-paste.ini
[database]
connection = sqlite:///$RUN/neutron.db
[oslo_concurrency]
lock_path = $RUN/lock
[ml2]
type_drivers = local,flat,vxlan
tenant_network_types = vxlan
mechanism_drivers = openvswitch
extension_drivers = port_security
[ml2_type_vxlan]
vni_ranges = 1:1000
$(auth)
T
cat > nova.conf <<T
[DEFAULT]
transport_url = $MQ
compute_driver = fake.FakeDriver
host = proof
state_path = $RUN
osapi_compute_listen = 127.0.0.1
my_ip = 127.0.0.1
vif_plugging_is_fatal = false
vif_plugging_timeout = 0
log_dir =
[api]
auth_strategy = keystone
[wsgi]
api_paste_config = $VENV/etc/nova/api-paste.ini
[api_database]
connection = sqlite:///$RUN/nova_api.db
[database]
connection = sqlite:///$RUN/nova.db
[oslo_concurrency]
lock_path = $RUN/lock
[scheduler]
discover_hosts_in_cells_interval = 5
[compute]
resource_provider_association_refresh = 10
$(auth)
$(client placement)
$(client neutron)
$(client glance)
$(client service_user)
T
keystone-manage --config-file keystone.conf db_sync > log/setup.log 2>&1
for kind in fernet credential; do keystone-manage --config-file keystone.conf ${kind}_setup --keystone-user root --keystone-group root >> log/setup.log 2>&1; done
keystone-manage --config-file keystone.conf bootstrap --bootstrap-password proof --bootstrap-region-id one \
  --bootstrap-public-url http://127.0.0.1:35000/v3 --bootstrap-internal-url http://127.0.0.1:35000/v3 --bootstrap-admin-url http://127.0.0.1:35000/v3 >> log/setup.log 2>&1 &
K=$!
(glance-manage --config-file glance-api.conf db_sync >> log/setup-glance.log 2>&1) & G=$!
python - <<T > log/setup-neutron.log 2>&1 & N=$!
import sys
sys.argv=["neutron","--config-file","$RUN/neutron.conf"]
from neutron.db.migration.models import head
from neutron_lib.db import model_base
import sqlalchemy as sa
e=sa.create_engine("sqlite:///$RUN/neutron.db")
model_base.BASEV2.metadata.create_all(e)
import json, datetime
now=datetime.datetime.utcnow()+datetime.timedelta(days=3650)
c=json.dumps({"bridge_mappings":{},"tunnel_types":["vxlan"],"tunneling_ip":"127.0.0.1","datapath_type":"system","ovs_capabilities":{"datapath_types":[],"iface_types":[]},"integration_bridge":"br-int","devices":0,"extensions":[],"l2_population":False,"arp_responder_enabled":False,"enable_distributed_routing":False,"log_agent_heartbeats":False,"in_distributed_mode":False,"vhostuser_socket_dir":"/tmp"})
with e.begin() as x:
    x.execute(sa.text("insert into agents (id,agent_type,\"binary\",topic,host,admin_state_up,created_at,started_at,heartbeat_timestamp,configurations,\"load\") values ('11111111-1111-4111-8111-111111111111','Open vSwitch agent','neutron-openvswitch-agent','N/A','proof',1,:n,:n,:n,:c,0)"),{"n":now.strftime("%Y-%m-%d %H:%M:%S.%f"),"c":c})
T
(nova-manage --config-file nova.conf api_db sync && nova-manage --config-file nova.conf cell_v2 map_cell0 --database_connection sqlite:///$RUN/nova_cell0.db && nova-manage --config-file nova.conf db sync && nova-manage --config-file nova.conf cell_v2 create_cell --name cell1) >> log/setup-nova.log 2>&1 & V=$!
wait $K; wait $G; wait $N; wait $V
serve() { start $1 env $4 uwsgi --http-socket 127.0.0.1:$2 --module $3 --processes 1 --threads 4 --enable-threads --thunder-lock --need-app --add-header "Connection: close" --buffer-size 65535 --http-raw-body --die-on-term --lazy-apps; }
serve keystone 35000 keystone.wsgi.api:application OS_KEYSTONE_CONFIG_FILES=$RUN/keystone.conf
serve placement 35778 placement.wsgi.api:application OS_PLACEMENT_CONFIG_DIR=$RUN
serve glance 35292 glance.wsgi.api:application "OS_GLANCE_CONFIG_FILES=$RUN/glance-api.conf OS_GLANCE_CONFIG_DIR=$RUN"
serve neutron 35696 neutron.wsgi.api:application "OS_NEUTRON_CONFIG_DIR=$RUN OS_NEUTRON_CONFIG_FILES=neutron.conf"
cp "$VENV/etc/nova/api-paste.ini" .
serve nova 35774 nova.wsgi.osapi_compute:application OS_NOVA_CONFIG_DIR=$RUN
wait_for http://127.0.0.1:35000/v3
python - <<'T'
import json, urllib.request
def call(method, url, body=None, token=None):
    r=urllib.request.Request(url, method=method, data=json.dumps(body).encode() if body is not None else None, headers={"content-type":"application/json", **({"x-auth-token":token} if token else {})})
    a=urllib.request.urlopen(r); t=a.read(); return a.headers, json.loads(t) if t else None
K="http://127.0.0.1:35000/v3"
h,_=call("POST",K+"/auth/tokens",{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","password":"proof","domain":{"id":"default"}}}},"scope":{"project":{"name":"admin","domain":{"id":"default"}}}}})
t=h["x-subject-token"]
for kind,url in {"placement":"http://127.0.0.1:35778","image":"http://127.0.0.1:35292","network":"http://127.0.0.1:35696","compute":"http://127.0.0.1:35774/v2.1"}.items():
    _,s=call("POST",K+"/services",{"service":{"type":kind,"name":kind}},t)
    for i in ["public","internal","admin"]:
        call("POST",K+"/endpoints",{"endpoint":{"service_id":s["service"]["id"],"interface":i,"region_id":"one","url":url}},t)
T
for port in 35778 35292 35696 35774; do wait_for http://127.0.0.1:$port/; done
for _ in $(seq 120); do (echo > /dev/tcp/127.0.0.1/35672) 2>/dev/null && break; sleep 0.5; done
start conductor nova-conductor --config-file nova.conf
start scheduler nova-scheduler --config-file nova.conf
start compute nova-compute --config-file nova.conf
start rpc neutron-rpc-server --config-file neutron.conf
python "$HERE/furnish.py" "$RUN"
nova-manage --config-file nova.conf cell_v2 discover_hosts >> log/setup-nova.log 2>&1
echo services are up

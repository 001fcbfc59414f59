//! The same kubectl session on the real server and on the embedded one: what a user sees must be the same.
//!
//! Every step of `SCRIPT` runs on both. Outputs are compared after taking out what no two servers share: identities,
//! versions, times and addresses. Steps that may differ are listed in `kubectl/allowed.txt` with the reason.

mod normal;

use std::collections::BTreeMap;

use anyhow::Context as _;
use futures::StreamExt as _;

use super::behaviours::wire::AGGREGATED;
use normal::normal;
use referee::{ControlPlane, Kind, control_plane, needs};

const ALLOWED: &str = include_str!("kubectl/allowed.txt");
const DEFINITION: &str = include_str!("kubectl/definition.yaml");
const KINDS: &str = include_str!("kubectl/kinds.yaml");
const SIGNING: &str = include_str!("kubectl/signing.yaml");
const WIDGET: &str = include_str!("kubectl/widget.yaml");
const WORKLOAD: &str = include_str!("kubectl/workload.yaml");

/// One command: a name for the list of differences, its arguments, and what stands on standard input.
struct Step {
    name: &'static str,
    arguments: &'static str,
    input: &'static str,
}

const fn step(name: &'static str, arguments: &'static str) -> Step {
    Step { name, arguments, input: "" }
}

const fn with(name: &'static str, arguments: &'static str, input: &'static str) -> Step {
    Step { name, arguments, input }
}

const CHANGED: &str = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: one, namespace: default}\nspec: {size: 5, color: blue}\n";

/// What stands in for a person at an editor.
const EDITOR: &str = "sed -i s/hello/changed/";

const SCRIPT: &[Step] = &[
    step("api-versions", "api-versions"),
    step("api-resources that can be listed", "api-resources --verbs=list --namespaced=false -o name"),
    step("api-resources of a category", "api-resources --categories=all"),
    step("api-resources of apps", "api-resources --api-group=apps --no-headers"),
    step("api-resources of policy", "api-resources --api-group=policy --no-headers"),
    step("api-resources by name", "api-resources --api-group=coordination.k8s.io -o name"),
    step("api-resources of the listing", "api-resources --api-group=apiregistration.k8s.io"),
    step("get api services", "get apiservices v1. v1.apps v1.batch v1.policy"),
    step("get an api service", "get apiservice v1.coordination.k8s.io -o yaml"),
    step("describe an api service", "describe apiservice v1.storage.k8s.io"),
    with("apply a definition", "apply -f -", DEFINITION),
    step("wait for the definition", "wait --for=condition=Established crd/widgets.example.com --timeout=30s"),
    step("get the api service of the definition", "get apiservice v1.example.com"),
    step("delete the api service of the definition", "delete apiservice v1.example.com"),
    step("wait for it to be back", "wait --for=condition=Available apiservice/v1.example.com --timeout=20s"),
    step("api-resources of the definition", "api-resources --api-group=example.com"),
    with("apply a custom object", "apply -f -", WIDGET),
    with("apply it again", "apply -f -", WIDGET),
    with("apply a change", "apply -f -", CHANGED),
    with("diff without a difference", "diff -f -", CHANGED),
    with(
        "apply what is not valid",
        "apply -f -",
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: bad}\nspec: {size: x}\n",
    ),
    with(
        "apply an unknown field",
        "apply -f -",
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: bad}\nspec: {sise: 1}\n",
    ),
    with("apply an unknown kind", "apply -f -", "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: bad}\n"),
    with(
        "apply on the server",
        "apply --server-side -f -",
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: two}\nspec: {size: 1}\n",
    ),
    with(
        "apply on the server again",
        "apply --server-side -f -",
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: two}\nspec: {size: 1}\n",
    ),
    with(
        "conflict on the server",
        "apply --server-side --field-manager=other -f -",
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: two}\nspec: {size: 2}\n",
    ),
    with(
        "force on the server",
        "apply --server-side --force-conflicts --field-manager=other -f -",
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: two}\nspec: {size: 2}\n",
    ),
    step("get", "get widgets"),
    step("get by short name", "get wd"),
    step("get wide", "get widgets -o wide"),
    step("get one", "get widget one"),
    step("get two sorts", "get widgets,configmaps"),
    step("get without headers", "get widgets --no-headers"),
    step("get with labels", "get widgets --show-labels"),
    step("get as yaml", "get widget one -o yaml"),
    step("get as json", "get widget one -o json"),
    step("get as names", "get widgets -o name"),
    step("get by path", "get widgets -o jsonpath={.items[*].spec.size}"),
    step("get by template", "get widget one -o go-template={{.spec.color}}"),
    step("get by columns", "get widgets -o custom-columns=N:.metadata.name,S:.spec.size"),
    step("get with managed fields", "get widget two -o yaml --show-managed-fields"),
    step("get sorted", "get widgets --sort-by=.spec.size -o name"),
    step("get raw", "get --raw /apis/example.com/v1/namespaces/default/widgets/one"),
    step("get what is not there", "get widget nobody"),
    step("get an unknown sort", "get gadgets"),
    step("get in all namespaces", "get widgets -A"),
    step("get by field", "get widgets --field-selector metadata.name=two -o name"),
    step("get nothing", "get widgets -l no=match"),
    step("label", "label widget one tier=web"),
    step("label again", "label widget one tier=db"),
    step("label over", "label widget one tier=db --overwrite"),
    step("get by label", "get widgets -l tier=db -o name"),
    step("unlabel", "label widget one tier-"),
    step("annotate", "annotate widget one note=hello"),
    step("patch by merge", "patch widget one --type=merge -p {\"spec\":{\"size\":7}}"),
    step(
        "patch by operations",
        "patch widget one --type=json -p [{\"op\":\"replace\",\"path\":\"/spec/size\",\"value\":8}]",
    ),
    step("patch nothing", "patch widget one --type=merge -p {\"spec\":{\"size\":8}}"),
    step("patch badly", "patch widget one --type=merge -p {\"spec\":{\"size\":\"x\"}}"),
    step(
        "patch the status",
        "patch widget one --subresource=status --type=merge -p {\"status\":{\"ready\":true,\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
    ),
    step("wait for a condition", "wait --for=condition=Ready widget/one --timeout=10s"),
    step("wait for a value", "wait --for=jsonpath={.status.ready}=true widget/one --timeout=10s"),
    step("wait in vain", "wait --for=condition=Never widget/one --timeout=1s"),
    step("scale a custom object", "scale widget one --replicas=3"),
    step("scale with a condition", "scale widget one --current-replicas=9 --replicas=4"),
    step("explain a custom kind", "explain widget"),
    step("explain a custom field", "explain widget.spec.size"),
    step("explain everything beneath", "explain widget.spec --recursive"),
    step("explain an unknown field", "explain widget.spec.nothing"),
    with("create nodes and pods", "create -f -", WORKLOAD),
    with("create what is there", "create -f -", WORKLOAD),
    step("get nodes", "get nodes"),
    step("get pods", "get pods"),
    step("get deployments", "get deployments"),
    step("scale a deployment", "scale deployment web --replicas=2"),
    step("get the scale", "get deployment web --subresource=scale"),
    step("cordon", "cordon node-1"),
    step("cordon again", "cordon node-1"),
    step("get a cordoned node", "get node node-1"),
    step("taint", "taint node node-1 key=value:NoSchedule"),
    step("untaint", "taint node node-1 key:NoSchedule-"),
    step("drain by trial", "drain node-1 --dry-run=server --force"),
    step("drain with a lonely pod", "drain node-1"),
    step("drain", "drain node-1 --force --timeout=20s --grace-period=0"),
    step("get pods after the drain", "get pods"),
    step("uncordon", "uncordon node-1"),
    step("watch", "get widgets --watch --output-watch-events --request-timeout=3s"),
    step("edit", "edit widget one"),
    step("edit nothing", "edit widget one"),
    with(
        "replace",
        "replace -f -",
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: one}\nspec: {size: 9}\n",
    ),
    with("diff with a difference", "diff -f -", CHANGED),
    step("describe a custom object", "describe widget one"),
    step("create a namespace", "create namespace made -o yaml"),
    step("create a config map", "create configmap made --from-literal=a=b -o yaml"),
    step("create a config map again", "create configmap made --from-literal=a=b"),
    step("create a secret", "create secret generic made --from-literal=a=b -o yaml"),
    step("create a service account", "create serviceaccount made -o yaml"),
    step("create a role", "create role made --verb=get,list --resource=pods,deployments.apps -o yaml"),
    step("create a role binding", "create rolebinding made --role=made --serviceaccount=default:made -o yaml"),
    step("create a cluster role", "create clusterrole made --verb=get --non-resource-url=/logs/* -o yaml"),
    step("create a cluster role binding", "create clusterrolebinding made --clusterrole=view --user=jane -o yaml"),
    step("create a job", "create job made --image=example -o yaml"),
    step("create a cron job", "create cronjob made --image=example --schedule=1_*_*_*_* -o yaml"),
    step("create a deployment", "create deployment made --image=example --replicas=2 -o yaml"),
    step("create a budget", "create poddisruptionbudget made --selector=app=made --min-available=50% -o yaml"),
    step("create a priority class", "create priorityclass made --value=7 --description=words -o yaml"),
    step("create a quota", "create quota made --hard=pods=5,cpu=1 -o yaml"),
    step("create a service", "create service clusterip made --tcp=80:8080 -o yaml"),
    step("create an ingress", "create ingress made --rule=a.example/x=made:80 -o yaml"),
    step(
        "create a secret for a registry",
        "create secret docker-registry registry --docker-server=r.example --docker-username=u --docker-password=p -o yaml",
    ),
    step("create a service on nodes", "create service nodeport ported --tcp=80 --node-port=30080 -o yaml"),
    step("create a service elsewhere", "create service externalname elsewhere --external-name=example.org -o yaml"),
    step("create a deployment with a command", "create deployment busy --image=example --port=80 -- sleep 1"),
    step("create a role of roles", "create clusterrole summed --aggregation-rule=sum=yes -o yaml"),
    step("create a secret of a kind", "create secret generic typed --type=example.com/t --from-literal=a=b -o yaml"),
    step("describe a secret", "describe secret registry"),
    step("describe a service", "describe service elsewhere"),
    step("describe a quota", "describe quota made"),
    step("set resources", "set resources deployment busy --limits=cpu=200m,memory=64Mi"),
    step("set a service account", "set serviceaccount deployment busy default"),
    step("rollout history", "rollout history deployment busy"),
    step("rollout status in vain", "rollout status deployment busy --timeout=1s"),
    step("approve nothing", "certificate approve none"),
    with("ask for certificates", "create -f - --as=jane --as-group=system:masters", SIGNING),
    step("get the requests", "get csr"),
    step("approve one", "certificate approve wanted"),
    step("approve it again", "certificate approve wanted"),
    step("deny the other", "certificate deny unwanted"),
    step("deny what is approved", "certificate deny wanted"),
    step("get the decided requests", "get csr"),
    step("describe a request", "describe csr wanted"),
    step("get the conditions of a request", "get csr unwanted -o jsonpath={.status.conditions[*].type}"),
    step("delete the requests", "delete csr wanted unwanted"),
    step("rollout pause", "rollout pause deployment busy"),
    step("rollout restart what is paused", "rollout restart deployment busy"),
    step("rollout resume", "rollout resume deployment busy"),
    step("rollout resume again", "rollout resume deployment busy"),
    step("rollout restart one", "rollout restart deployment busy"),
    step("rollout history of a revision", "rollout history deployment busy --revision=3"),
    step("rollout undo to no revision", "rollout undo deployment busy --to-revision=7"),
    step("rollout status without waiting", "rollout status deployment busy --watch=false"),
    step("set an image by trial", "set image deployment/busy example=other --dry-run=server -o yaml"),
    step("set an environment from a secret", "set env deployment/busy --from=secret/typed"),
    step("list the environment", "set env deployment/busy --list"),
    step("unset an environment", "set env deployment/busy A-"),
    step("wait for a namespace", "wait --for=jsonpath={.status.phase}=Active namespace/made --timeout=10s"),
    step("wait for what is created", "wait --for=create configmap/made --timeout=10s"),
    step("wait for nothing of a kind", "wait --for=condition=Ready jobs -l no=match --timeout=1s"),
    step("look at the load of pods", "top pods"),
    step("dump the cluster", "cluster-info dump --namespaces=made"),
    step("annotate by selector", "annotate configmaps -l no=match note=hello"),
    step("annotations of an object", "annotate deployment busy note=hello --list"),
    step("labels of an object", "label deployment busy --list"),
    step("set the last applied", "apply set-last-applied -f - --create-annotation"),
    step("which rights there are", "auth can-i --list --as=john"),
    step("expose a pod that is not there", "expose pod nobody --port=80"),
    step("delete raw", "delete --raw /api/v1/namespaces/default/configmaps/nobody"),
    with("create raw", "create --raw /api/v1/namespaces/default/configmaps -f -", "{\"metadata\":{\"name\":\"raw\"}}"),
    with(
        "replace raw",
        "replace --raw /api/v1/namespaces/default/configmaps/raw -f -",
        "{\"metadata\":{\"name\":\"raw\"},\"data\":{\"a\":\"b\"}}",
    ),
    step("delete raw what is there", "delete --raw /api/v1/namespaces/default/configmaps/raw"),
    step("get in pages", "get configmaps,secrets --chunk-size=1 -o name"),
    step("explain a built-in by its version", "explain jobs --api-version=batch/v2"),
    step("which plugins", "plugin list"),
    step("a token for others", "create token default --audience=x --duration=10m -o jsonpath={.spec.audiences}"),
    step("delete and orphan", "delete deployment busy --cascade=orphan"),
    step("delete several services", "delete service ported elsewhere"),
    step("create in no namespace", "create configmap made -n nowhere"),
    step("create a name that breaks the rules", "create configmap Made"),
    step("create by trial on the server", "create configmap trial --dry-run=server -o name"),
    step("may I", "auth can-i create pods"),
    step("may a service account", "auth can-i get pods --as=system:serviceaccount:default:made"),
    step("may it not", "auth can-i delete pods --as=system:serviceaccount:default:made"),
    step(
        "may anybody read the version",
        "auth can-i get /version --as=system:anonymous --as-group=system:unauthenticated",
    ),
    step("who am I", "auth whoami -o jsonpath={.status.userInfo.groups}"),
    step("who is another", "auth whoami --as=jane --as-group=devs"),
    step("act as another", "get pods --as=john"),
    step("a token for nobody", "create token nobody"),
    step("a token that is too short", "create token made --duration=1s"),
    step("expose", "expose deployment made --port=80"),
    with(
        "apply what will be edited",
        "apply -f -",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: edited}\ndata: {a: hello}\n",
    ),
    step("edit what was applied last", "apply edit-last-applied configmap edited"),
    step("view what was applied last", "apply view-last-applied configmap edited"),
    step("delete what was edited", "delete configmap edited"),
    step("autoscale", "autoscale deployment made --min=2 --max=5 --cpu-percent=70"),
    step("autoscale again", "autoscale deployment made --max=5"),
    step("autoscale by trial", "autoscale deployment made --name=other --max=3 --dry-run=server -o yaml"),
    step("autoscale badly", "autoscale deployment made --name=bad --min=4 --max=3"),
    step("autoscale what is not there", "autoscale deployment nobody --max=3"),
    step("get autoscalers", "get hpa"),
    step("get an autoscaler", "get hpa made -o yaml --show-managed-fields"),
    step("get an autoscaler in its first version", "get hpa.v1.autoscaling made -o yaml"),
    step("describe an autoscaler", "describe hpa made"),
    step(
        "report what an autoscaler sees",
        "patch hpa made --subresource=status --type=merge -p {\"status\":{\"currentReplicas\":2,\"desiredReplicas\":3,\"currentMetrics\":[{\"type\":\"Resource\",\"resource\":{\"name\":\"cpu\",\"current\":{\"averageUtilization\":44,\"averageValue\":\"100m\"}}}]}}",
    ),
    step("get what an autoscaler sees", "get hpa made"),
    step(
        "an autoscaler in its first version by trial",
        "patch hpa.v1.autoscaling made --type=merge -p {\"spec\":{\"targetCPUUtilizationPercentage\":50}} --dry-run=server -o yaml",
    ),
    step("delete an autoscaler", "delete hpa made"),
    with("apply cluster kinds", "apply -f -", KINDS),
    step("get a class of ingresses", "get ingressclass"),
    step("describe a class of ingresses", "describe ingressclass front"),
    step("get a class of runtimes", "get runtimeclass"),
    step("get a level of priority", "get prioritylevelconfiguration own"),
    step("get the levels of priority", "get prioritylevelconfigurations --no-headers"),
    step("wait for a flow schema", "wait --for=condition=Dangling=False flowschema/own --timeout=20s"),
    step("get a flow schema", "get flowschema own -o wide"),
    step("get the flow schemas", "get flowschemas"),
    step("describe a flow schema", "describe flowschema own"),
    step("get a class of devices", "get deviceclass"),
    step("get a class of volumes", "get volumeattributesclass"),
    step("describe a class of volumes", "describe vac gold"),
    with("delete cluster kinds", "delete --wait=false -f -", KINDS),
    step("get components", "get componentstatuses"),
    step("get a component", "get cs etcd-0"),
    step("set an image", "set image deployment/made example=other"),
    step("set an environment", "set env deployment/made A=b"),
    step("rollout restart", "rollout pause deployment/made"),
    step("run a pod", "run lonely --image=example --restart=Never --labels=a=b"),
    step("exec into a pod without a node", "exec lonely -- ls"),
    step("forward to a pod without a node", "port-forward pod/lonely 8080:80"),
    step("logs of a pod without a node", "logs lonely"),
    step("attach to a pod without a node", "attach lonely"),
    step("copy from a pod without a node", "cp lonely:/etc/x nowhere"),
    step("create what is to be edited", "create configmap edited --from-literal=greeting=hello"),
    step("edit a built-in", "edit configmap edited"),
    step("get what was edited", "get configmap edited -o jsonpath={.data}"),
    step("edit a built-in into what it is", "edit configmap edited"),
    step("debug a pod", "debug lonely --image=example --container=first -- sleep 1"),
    step("debug a pod's container", "debug lonely --image=example --container=second --target=lonely -- sleep 1"),
    step("debug a pod a third time", "debug lonely --image=example --container=second -- sleep 2"),
    step("debug no container", "debug lonely --image=example --container=third --target=nobody -- sleep 2"),
    step("get the containers for debugging", "get pod lonely -o jsonpath={.spec.ephemeralContainers}"),
    step("get the generation of a pod", "get pod lonely -o jsonpath={.metadata.generation}"),
    step("describe a pod that is debugged", "get pod lonely --subresource=ephemeralcontainers -o name"),
    step("debug a copy of a pod", "debug lonely --image=example --copy-to=copied --container=first -- sleep 1"),
    step("get the copy", "get pod copied -o jsonpath={.spec.containers[*].name}"),
    step("debug a node", "debug node/node-1 --image=example --profile=sysadmin -- sleep 1"),
    step(
        "get what debugs a node",
        "get pods --field-selector=spec.nodeName=node-1 -o jsonpath={.items[*].spec.volumes[0].hostPath.path}_{.items[*].spec.hostPID}_{.items[*].spec.containers[*].volumeMounts[0].mountPath}",
    ),
    step("debug no node", "debug node/nobody --image=example -- sleep 1"),
    step("look at what was applied last", "apply view-last-applied widget one"),
    step("look at the load", "top nodes"),
    step("which version", "version"),
    step("which cluster", "cluster-info"),
    step("set a subject", "set subject rolebinding made --user=john"),
    step("set a selector", "set selector service made app=other"),
    step("undo nothing", "rollout undo deployment/made"),
    with(
        "replace by force",
        "replace --force -f -",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: edited}\ndata: {a: b}\n",
    ),
    with(
        "reconcile rights",
        "auth reconcile -f -",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: made}\nrules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]\n",
    ),
    with(
        "reconcile rights in a namespace",
        "auth reconcile -f -",
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: made, namespace: default}\nrules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]\n",
    ),
    with("delete by a file", "delete -f -", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: edited}\n"),
    step("describe a deployment", "describe deployment web"),
    step("describe a namespace", "describe namespace made"),
    step("describe a service account", "describe serviceaccount made"),
    step("describe a role", "describe role made"),
    step("events", "events -n made"),
    step("get events", "get events -n made"),
    step("get by several names", "get configmap/made secret/made -o name"),
    step("get a sorted table of roles", "get roles,rolebindings,serviceaccounts"),
    step("get jobs and the like", "get jobs,cronjobs,poddisruptionbudgets,services,ingresses,quota -o wide"),
    step("get priority classes", "get priorityclasses"),
    step(
        "delete what was made",
        "delete configmap,secret,serviceaccount,role,rolebinding,job,cronjob,deployment,pdb,quota,service,ingress made",
    ),
    step("delete a namespace", "delete namespace made --timeout=30s"),
    step("delete by trial", "delete widget two --dry-run=server"),
    step("delete", "delete widget two"),
    step("wait for deletion", "wait --for=delete widget/two --timeout=10s"),
    step("delete what is not there", "delete widget two"),
    step("delete if it is there", "delete widget two --ignore-not-found"),
    step("delete all", "delete widgets --all"),
    step("delete a definition", "delete crd widgets.example.com"),
];

#[tokio::test]
async fn a_user_sees_the_same_on_both_servers() {
    if !needs::kubectl() {
        return;
    }
    let Some(real) = control_plane(Kind::Real).await else { return };
    let Some(embedded) = control_plane(Kind::Embedded).await else { return };
    let allowed = allowed();
    let (mut same, mut differences) = (0, BTreeMap::new());
    for step in SCRIPT {
        let (theirs, ours) = (run(&real, step), run(&embedded, step));
        if theirs == ours {
            same += 1;
            println!("same    {}", step.name);
        } else {
            println!("DIFFERS {}\n--- real\n{theirs}\n--- embedded\n{ours}", step.name);
            differences.insert(step.name, (theirs, ours));
        }
    }
    let (theirs, ours) = (through_proxy(&real).await.unwrap(), through_proxy(&embedded).await.unwrap());
    assert_eq!(theirs, ours, "through kubectl's proxy");
    assert!(ours[1].starts_with("200 ") && ours[1].contains("\"proxied\""), "{ours:?}");
    println!("kubectl: {same} steps the same, {} not", differences.len());
    let stale: Vec<_> = allowed.keys().filter(|name| !differences.contains_key(*name)).collect();
    assert!(stale.is_empty(), "these no longer differ, so they go from allowed.txt: {stale:?}");
    differences.retain(|name, _| !allowed.contains_key(name));
    assert!(differences.is_empty(), "{} steps differ: {:?}", differences.len(), differences.keys());
}

/// What a client sees that speaks plain HTTP to `kubectl proxy`: writes, a refusal, a watch, and a group that is hidden.
async fn through_proxy(server: &ControlPlane) -> anyhow::Result<Vec<String>> {
    use tokio::io::AsyncBufReadExt as _;

    let mut command = tokio::process::Command::new("kubectl");
    command.arg("--kubeconfig").arg(server.kubeconfig()).args(["proxy", "--port=0"]);
    let mut proxy = command.stdout(std::process::Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut lines = tokio::io::BufReader::new(proxy.stdout.take().context("stdout")?).lines();
    let line = lines.next_line().await?.context("the proxy's address")?;
    let base = format!("http://{}", line.rsplit(' ').next().unwrap_or_default());
    let http = reqwest::Client::new();
    let maps = format!("{base}/api/v1/namespaces/default/configmaps");
    let made = http.post(&maps).body(r#"{"metadata":{"name":"proxied"},"data":{"a":"b"}}"#);
    let made = made.header("Content-Type", "application/json").send().await?;
    let mut seen = vec![told(made, server).await?];
    for url in [format!("{maps}/proxied"), format!("{maps}/nobody"), format!("{base}/nothing/here")] {
        seen.push(told(http.get(url).send().await?, server).await?);
    }
    let watch = format!("{maps}?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Dproxied");
    let mut events = http.get(watch).send().await?.bytes_stream();
    let mut first = Vec::new();
    while !first.contains(&b'\n') {
        first.extend_from_slice(&events.next().await.context("an event")??);
    }
    seen.push(normal(String::from_utf8_lossy(&first).trim(), server.server()));
    seen.push(told(http.delete(format!("{maps}/proxied")).send().await?, server).await?);
    hide_a_group(&http, &base).await?;
    Ok(seen)
}

async fn told(answer: reqwest::Response, server: &ControlPlane) -> anyhow::Result<String> {
    let code = answer.status().as_u16();
    Ok(format!("{code} {}", normal(&answer.text().await?, server.server())))
}

/// Whoever deletes the APIService of a built-in group hides the group from the older list of groups; it is served all the
/// same, and the aggregated list still tells of it.
async fn hide_a_group(http: &reqwest::Client, base: &str) -> anyhow::Result<()> {
    let services = format!("{base}/apis/apiregistration.k8s.io/v1/apiservices");
    let service = format!("{services}/v1.scheduling.k8s.io");
    let mut body: serde_json::Value = http.get(&service).send().await?.json().await?;
    let listed = async |accept: &str| -> anyhow::Result<bool> {
        let answer = http.get(format!("{base}/apis")).header("Accept", accept).send().await?;
        Ok(answer.text().await?.contains("\"scheduling.k8s.io\""))
    };
    anyhow::ensure!(listed(AGGREGATED).await? && listed("application/json").await?, "it is listed at first");
    http.delete(&service).send().await?.error_for_status()?;
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while listed("application/json").await? {
        anyhow::ensure!(std::time::Instant::now() < patience, "the group is still listed");
    }
    anyhow::ensure!(listed(AGGREGATED).await?, "the aggregated list lacks it too");
    for path in ["", "/priorityclasses"] {
        http.get(format!("{base}/apis/scheduling.k8s.io/v1{path}")).send().await?.error_for_status()?;
    }
    for field in ["resourceVersion", "uid"] {
        body["metadata"][field].take();
    }
    let again = http.post(&services).header("Content-Type", "application/json").body(body.to_string());
    again.send().await?.error_for_status()?;
    while !(listed(AGGREGATED).await? && listed("application/json").await?) {
        anyhow::ensure!(std::time::Instant::now() < patience, "the group is not listed again");
    }
    Ok(())
}

#[test]
fn every_step_has_its_own_name() {
    let names: std::collections::BTreeSet<_> = SCRIPT.iter().map(|step| step.name).collect();
    assert_eq!(names.len(), SCRIPT.len());
    for name in allowed().keys() {
        assert!(names.contains(name), "allowed.txt names {name:?}, which is no step");
    }
}

fn allowed() -> BTreeMap<&'static str, &'static str> {
    let lines = ALLOWED.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(" | ").unwrap_or_else(|| panic!("allowed.txt: no reason in {line:?}"))).collect()
}

/// Exit code, standard output and standard error of a step, without what differs between any two servers.
fn run(server: &ControlPlane, step: &Step) -> String {
    // Blanks part arguments; an underscore stands for a blank inside of one.
    let arguments: Vec<String> = step.arguments.split(' ').map(|argument| argument.replace('_', " ")).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = server.kubectl_with(&arguments, Some(step.input), &[("KUBE_EDITOR", EDITOR)]);
    let text = |bytes: &[u8]| normal(&String::from_utf8_lossy(bytes), server.server());
    format!("code {:?}\n{}{}", output.status.code(), text(&output.stdout), text(&output.stderr))
}

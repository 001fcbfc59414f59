//! Requests that are almost right, or not at all: method, path, query, headers, body.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

use super::{Random, bodies};
use crate::auth::{Peer, User};

/// A request for a certificate, as PEM in base64.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIZk1JR0dBZ0VBTUNReEVEQU9CZ05WQkFvTUIyVjRZVzF3YkdVeEVEQU9CZ05WQkFNTUIzTnZiV1Z2Ym1VdwpXVEFUQmdjcWhrak9QUUlCQmdncWhrak9QUU1CQndOQ0FBU2R2ZmdXL09rdlpMUldDWFpPdHVKVnJrMVpHZUw0Ck9PQ0VTd3NwUzY2TEZqR3FaSDJ0V1lIYjRMNGprd2ZVa203ZWg0TG9KZGZ5cE5GSEpOYzFVdDJob0FBd0NnWUkKS29aSXpqMEVBd0lEU0FBd1JRSWhBTVg0cklVWFkrRURPZ3I3ekFWV0xuL0pIYlpPeE1RT2dDMEk1MTJMbHk1cwpBaUJrYmphRTN4L0VKMHROc2pEcWdsNDIvaDFGM3hZSW82YzRjZmt6REVneGlRPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

/// A resource that requests are about: its path without namespace, its plural, whether it has a namespace, an object.
pub(super) struct Sort {
    pub base: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
    pub object: Value,
}

pub(super) struct Odd {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    user: usize,
}

impl Odd {
    pub(super) fn shown(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        let body: String = body.chars().take(600).collect();
        format!("{} {}?{} {:?} {body:?}", self.method, self.path, self.query, self.headers)
    }

    /// With a body a deletion does not read its query.
    pub(super) fn is_trial(&self) -> bool {
        (self.method != Method::DELETE || self.body.is_empty())
            && self.query.split('&').any(|pair| pair == "dryRun=All")
    }

    pub(super) fn peer(&self) -> Peer {
        let user = match self.user {
            0 => None,
            1 => Some(User::new("system:node:n0", &["system:nodes"])),
            2 => Some(User::new("nobody", &[])),
            _ => Some(User::new("admin", &["system:masters"])),
        };
        Peer { certificate: user }
    }

    pub(super) fn request(self) -> Option<Request<Full<Bytes>>> {
        let uri = if self.query.is_empty() { self.path } else { format!("{}?{}", self.path, self.query) };
        let mut request = Request::builder().method(self.method).uri(uri).body(Full::new(self.body.into())).ok()?;
        *request.headers_mut() = self.headers;
        Some(request)
    }
}

/// What is there before the first odd request, so that some of them meet something.
pub(super) fn first() -> Vec<(&'static str, Value)> {
    let definition = sorts().into_iter().find(|sort| sort.plural == "customresourcedefinitions");
    vec![
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition.map(|sort| sort.object).unwrap_or_default(),
        ),
        ("/api/v1/nodes", json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n0"}})),
        ("/api/v1/namespaces", json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "n1"}})),
    ]
}

pub(super) fn sorts() -> Vec<Sort> {
    let pod = json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "100m"}}, "env": [{"name": "A", "value": "b"}]}], "nodeName": "n0"});
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod});
    let sort = |base: &'static str, plural: &'static str, namespaced: bool, kind: &str, mut object: Value| {
        let group_version = base.trim_start_matches("/apis/").trim_start_matches("/api/");
        object["kind"] = kind.into();
        object["apiVersion"] = group_version.into();
        Sort { base, plural, namespaced, object }
    };
    vec![
        sort("/api/v1", "configmaps", true, "ConfigMap", json!({"data": {"k": "v"}, "binaryData": {"b": "AAE="}})),
        sort("/api/v1", "secrets", true, "Secret", json!({"stringData": {"k": "v"}, "type": "Opaque"})),
        sort("/api/v1", "pods", true, "Pod", json!({"spec": pod})),
        sort(
            "/api/v1",
            "nodes",
            false,
            "Node",
            json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}, "status": {"capacity": {"cpu": "1"}}}),
        ),
        sort("/api/v1", "namespaces", false, "Namespace", json!({})),
        sort(
            "/api/v1",
            "services",
            true,
            "Service",
            json!({"spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}}),
        ),
        sort("/api/v1", "serviceaccounts", true, "ServiceAccount", json!({})),
        sort(
            "/api/v1",
            "events",
            true,
            "Event",
            json!({"involvedObject": {"kind": "Pod", "name": "n0"}, "reason": "R", "count": 1}),
        ),
        sort(
            "/apis/apps/v1",
            "deployments",
            true,
            "Deployment",
            json!({"spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template}}),
        ),
        sort(
            "/apis/apps/v1",
            "daemonsets",
            true,
            "DaemonSet",
            json!({"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}}),
        ),
        sort(
            "/apis/batch/v1",
            "jobs",
            true,
            "Job",
            json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}),
        ),
        sort(
            "/apis/autoscaling/v1",
            "horizontalpodautoscalers",
            true,
            "HorizontalPodAutoscaler",
            json!({
                "metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/metrics": "[{\"type\":\"Pods\",\"pods\":{\"metricName\":\"m\"}}]"}},
                "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3},
            }),
        ),
        sort(
            "/apis/autoscaling/v2",
            "horizontalpodautoscalers",
            true,
            "HorizontalPodAutoscaler",
            json!({"spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3, "behavior": {"scaleDown": {}},
                "metrics": [{"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}}}],
            }}),
        ),
        sort(
            "/apis/flowcontrol.apiserver.k8s.io/v1",
            "prioritylevelconfigurations",
            false,
            "PriorityLevelConfiguration",
            json!({"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}}),
        ),
        sort(
            "/api/v1",
            "persistentvolumeclaims",
            true,
            "PersistentVolumeClaim",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        sort(
            "/api/v1",
            "services",
            true,
            "Service",
            json!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}}),
        ),
        sort(
            "/apis/policy/v1",
            "poddisruptionbudgets",
            true,
            "PodDisruptionBudget",
            json!({"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "a"}}}}),
        ),
        sort(
            "/apis/coordination.k8s.io/v1",
            "leases",
            true,
            "Lease",
            json!({"spec": {"holderIdentity": "h", "leaseDurationSeconds": 10, "renewTime": "2026-01-01T00:00:00.000000Z"}}),
        ),
        sort(
            "/apis/rbac.authorization.k8s.io/v1",
            "roles",
            true,
            "Role",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        ),
        sort(
            "/apis/rbac.authorization.k8s.io/v1",
            "clusterrolebindings",
            false,
            "ClusterRoleBinding",
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "nobody"}]}),
        ),
        sort(
            "/apis/apiextensions.k8s.io/v1",
            "customresourcedefinitions",
            false,
            "CustomResourceDefinition",
            json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "x-kubernetes-validations": [{"rule": "!has(self.size) || self.size < 100", "message": "too large"}],
                            "properties": {"size": {"type": "integer", "minimum": 0, "default": 1}, "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "number"}}}}, "free": {"x-kubernetes-preserve-unknown-fields": true}}},
                        "status": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}]}}),
        ),
        sort(
            "/apis/example.com/v1",
            "widgets",
            true,
            "Widget",
            json!({"spec": {"size": 3, "list": [{"k": "a", "v": 1.5}], "free": {"x": [1, null]}}}),
        ),
        sort(
            "/apis/apiregistration.k8s.io/v1",
            "apiservices",
            false,
            "APIService",
            json!({"metadata": {"name": "v1.far.example.com"}, "spec": {"group": "far.example.com", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10, "service": {"name": "s", "namespace": "default"}, "insecureSkipTLSVerify": true}}),
        ),
        sort(
            "/apis/authorization.k8s.io/v1",
            "subjectaccessreviews",
            false,
            "SubjectAccessReview",
            json!({"spec": {"user": "nobody", "resourceAttributes": {"verb": "get", "resource": "pods"}}}),
        ),
        sort("/apis/authentication.k8s.io/v1", "tokenreviews", false, "TokenReview", json!({"spec": {"token": "t"}})),
        sort(
            "/apis/certificates.k8s.io/v1",
            "certificatesigningrequests",
            false,
            "CertificateSigningRequest",
            json!({"spec": {"request": REQUEST, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}}),
        ),
        sort(
            "/apis/flowcontrol.apiserver.k8s.io/v1",
            "flowschemas",
            false,
            "FlowSchema",
            json!({"spec": {"priorityLevelConfiguration": {"name": "global-default"}, "distinguisherMethod": {"type": "ByUser"}, "rules": [{
                "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "n"}}],
                "resourceRules": [{"verbs": ["get"], "apiGroups": ["*"], "resources": ["pods"], "namespaces": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["/a/*"]}],
            }]}}),
        ),
        sort(
            "/apis/networking.k8s.io/v1",
            "servicecidrs",
            false,
            "ServiceCIDR",
            json!({"spec": {"cidrs": ["192.168.7.0/24", "2001:db8::/64"]}}),
        ),
        sort(
            "/apis/storage.k8s.io/v1",
            "csinodes",
            false,
            "CSINode",
            json!({"spec": {"drivers": [{"name": "a.example.com", "nodeID": "i", "allocatable": {"count": 1}, "topologyKeys": ["zone"]}]}}),
        ),
        sort(
            "/apis/storage.k8s.io/v1",
            "volumeattachments",
            false,
            "VolumeAttachment",
            json!({"spec": {"attacher": "a.example.com", "nodeName": "n0", "source": {"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": "h"}}}}}),
        ),
        sort(
            "/apis/resource.k8s.io/v1",
            "deviceclasses",
            false,
            "DeviceClass",
            json!({"spec": {"selectors": [{"cel": {"expression": "device.attributes['a'].b.startsWith('c')"}}], "config": [{"opaque": {"driver": "d", "parameters": {"a": 1}}}]}}),
        ),
        sort(
            "/apis/resource.k8s.io/v1",
            "resourceclaims",
            true,
            "ResourceClaim",
            json!({"spec": {"devices": {
                "requests": [{"name": "r", "exactly": {"deviceClassName": "c", "count": 1, "tolerations": [{"operator": "Exists"}]}}, {"name": "s", "firstAvailable": [{"name": "t", "deviceClassName": "c"}]}],
                "constraints": [{"requests": ["r", "s/t"], "matchAttribute": "a.com/b"}], "config": [{"requests": ["r"], "opaque": {"driver": "d", "parameters": {}}}],
            }}, "status": {"allocation": {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "e", "shareID": "12345678-1234-1234-1234-1234567890ab"}]}}, "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}),
        ),
        sort(
            "/apis/resource.k8s.io/v1",
            "resourceslices",
            false,
            "ResourceSlice",
            json!({"spec": {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n0", "devices": [{
                "name": "e", "allowMultipleAllocations": true, "attributes": {"a.com/b": {"version": "1.2.3"}}, "taints": [{"key": "k", "effect": "NoSchedule"}],
                "capacity": {"m": {"value": "8Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}}}, "n": {"value": "9", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}}},
            }]}}),
        ),
        sort(
            "/apis/networking.k8s.io/v1",
            "ingresses",
            true,
            "Ingress",
            json!({"spec": {"rules": [{"host": "a.example", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}]}}),
        ),
        sort(
            "/apis/admissionregistration.k8s.io/v1",
            "validatingadmissionpolicies",
            false,
            "ValidatingAdmissionPolicy",
            json!({"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]}, "validations": [{"expression": "object.metadata.name != 'x'"}]}}),
        ),
    ]
}

/// One odd request; `None` if no client could even send it.
pub(super) fn make(random: &mut Random) -> Option<Odd> {
    let sorts = sorts();
    let sort = &sorts[random.below(sorts.len())];
    let name = match sort.object["metadata"]["name"].as_str() {
        Some(own) if !random.once_in(6) => own.to_owned(),
        _ => random.pick(&["n0", "n0", "n1", "n2"]).to_owned(),
    };
    let method = match random.below(30) {
        0..=5 => Method::GET,
        6..=14 => Method::POST,
        15..=18 => Method::PUT,
        19..=26 => Method::PATCH,
        27 | 28 => Method::DELETE,
        _ => Method::from_bytes(
            random.pick(&["HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "X", "WATCH", "DELETE"]).as_bytes(),
        )
        .ok()?,
    };
    let collection = random.once_in(14);
    let to_name = if method == Method::POST { collection } else { !collection };
    let mut path = sort.base.to_owned();
    if sort.namespaced && !random.once_in(25) {
        path.push_str(random.pick(&[
            "/namespaces/default",
            "/namespaces/default",
            "/namespaces/default",
            "/namespaces/n1",
        ]));
    }
    path = format!("{path}/{}", sort.plural);
    if to_name {
        path = format!("{path}/{name}");
        if random.once_in(9) {
            path = format!("{path}/{}", random.pick(&SUBRESOURCES));
        }
    }
    if random.once_in(12) {
        path = odd_path(random, path);
    }
    let content = match method {
        Method::PATCH => bodies::patch(random, sort, &name),
        Method::POST | Method::PUT => bodies::object(random, sort, &name),
        Method::DELETE if random.once_in(3) => bodies::options(random),
        _ if random.once_in(20) => bodies::object(random, sort, &name),
        _ => bodies::Content { media: "", bytes: Vec::new() },
    };
    let headers = headers(random, content.media);
    let user = if random.once_in(15) { random.below(3) } else { 3 };
    Some(Odd { method, path, query: query(random), headers, body: content.bytes, user })
}

const SUBRESOURCES: [&str; 15] = [
    "status",
    "scale",
    "eviction",
    "binding",
    "finalize",
    "approval",
    "token",
    "log",
    "exec",
    "attach",
    "portforward",
    "proxy/x/y",
    "ephemeralcontainers",
    "nothing",
    "status/status",
];

fn odd_path(random: &mut Random, path: String) -> String {
    match random.below(14) {
        0 => path.replace('/', "//"),
        1 => path.replacen("/n", "/%6E", 1),
        2 => format!("{path}/%2F%2e%2E/%00"),
        3 => format!("{path}/../../x"),
        4 => format!("{path}/{}", "a".repeat(random.below(9000))),
        5 => format!("{path}%zz%"),
        6 => format!("{path}/%ff%fe%C3%28"),
        7 => path.to_uppercase(),
        8 => path.replacen("/v1", "/v9", 1),
        9 => path.replacen("/api", random.pick(&["/api/watch", "/watch/api", "/openapi/v3/api", "/apis", "/"]), 1),
        10 => path.replacen("/v1/", "/v1/watch/", 1),
        11 => format!("{path}/"),
        12 => random
            .pick(&[
                "/",
                "/api",
                "/apis",
                "/healthz/ping",
                "/metrics",
                "/openapi/v2",
                "/openapi/v3/apis/apps/v1",
                "/version/",
                "/apis/apps",
                "/readyz?verbose",
            ])
            .to_owned(),
        _ => {
            let at = random.below(path.len());
            format!(
                "{}{}{}",
                &path[..at],
                random.pick(&["%", "%2", "%25", ":", "@", "*", "%09", "~", "="]),
                &path[at..]
            )
        }
    }
}

const KEYS: [(&str, &[&str]); 20] = [
    (
        "labelSelector",
        &[
            "a",
            "a=b",
            "a%3Db%2Cc%21%3Dd",
            "a+in+(b%2Cc)",
            "!a",
            "a+in",
            "((",
            "%F0%9F%98%80",
            "a%3D%3D%3Db",
            "a>5",
            "a%00b",
        ],
    ),
    (
        "fieldSelector",
        &[
            "metadata.name=n0",
            "spec.nodeName=n0",
            "status.phase!=Running",
            "x=y",
            "=",
            "metadata.name",
            "a%3Db%5C%2Cc",
            "metadata.name=%5C",
        ],
    ),
    ("limit", &["1", "0", "-1", "500", "x", "99999999999999999999", "1e3", "9223372036854775807"]),
    (
        "continue",
        &[
            "x",
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ",
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJuMFx1MDAwMCJ9",
            "%00",
            "e30",
            "e30%3D",
        ],
    ),
    ("resourceVersion", &["0", "1", "5", "-1", "x", "18446744073709551615", "99999999999999999999", "1.5", ""]),
    ("resourceVersionMatch", &["Exact", "NotOlderThan", "x", ""]),
    ("watch", &["1", "true", "false", "0", "x", ""]),
    ("allowWatchBookmarks", &["true", "false", "x"]),
    ("sendInitialEvents", &["true", "false", "x"]),
    ("timeoutSeconds", &["0", "1", "-5", "x", "99999999999999"]),
    ("dryRun", &["All", "None", "All", ""]),
    (
        "fieldManager",
        &[
            "m",
            "",
            "%01",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ],
    ),
    ("fieldValidation", &["Strict", "Warn", "Ignore", "x"]),
    ("force", &["true", "false", "x"]),
    ("pretty", &["true", "1", "x", ""]),
    ("propagationPolicy", &["Foreground", "Background", "Orphan", "x"]),
    ("gracePeriodSeconds", &["0", "30", "-1", "x", "99999999999999999999"]),
    ("orphanDependents", &["true", "x"]),
    ("container", &["c", "x", "%00"]),
    ("tailLines", &["1", "-1", "x"]),
];

fn query(random: &mut Random) -> String {
    let count = if random.once_in(2) { 0 } else { random.below(4) };
    let mut pairs = Vec::new();
    for _ in 0..count {
        let (key, values) = KEYS[random.below(KEYS.len())];
        pairs.push(match random.below(20) {
            0 => key.to_owned(),
            1 => format!("{key}=%zz&&=&%"),
            2 => format!("{key}={}", "x".repeat(random.below(5000))),
            _ => format!("{key}={}", random.pick(values)),
        });
    }
    pairs.join("&")
}

const ACCEPTS: [&str; 12] = [
    "application/json",
    "*/*",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf, application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v9;g=x",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "text/html;q=;;;,,/",
    "application/json;pretty=1, application/cbor",
];

const OTHERS: [(&str, &str); 18] = [
    ("impersonate-user", "nobody"),
    ("impersonate-user", "system:serviceaccount:default:x"),
    ("impersonate-user", ""),
    ("impersonate-group", "system:masters"),
    ("impersonate-uid", "7"),
    ("impersonate-extra-a%2fb", "c"),
    ("impersonate-extra-%zz", "c"),
    ("authorization", "Bearer x"),
    ("authorization", "Bearer"),
    ("authorization", "Basic YTpi"),
    ("range", "bytes=0-1"),
    ("if-none-match", "\"*\""),
    ("user-agent", ""),
    ("user-agent", "/\u{e4}\u{7f}"),
    ("accept-encoding", "gzip"),
    ("upgrade", "websocket"),
    ("connection", "upgrade"),
    ("content-length", "99999999999"),
];

fn headers(random: &mut Random, media: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut add = |name: &str, value: &str| {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value.as_bytes()))
        {
            headers.append(name, value);
        }
    };
    let media = if random.once_in(25) {
        random.pick(&[
            "text/plain",
            "application/json; charset=utf-8",
            ";",
            "application/x-www-form-urlencoded",
            "APPLICATION/JSON",
            "application/vnd.kubernetes.protobuf",
        ])
    } else {
        media
    };
    if !media.is_empty() {
        add("content-type", media);
    }
    if random.once_in(6) {
        add("accept", random.pick(&ACCEPTS));
    }
    for _ in 0..2 {
        if random.once_in(25) {
            let (name, value) = OTHERS[random.below(OTHERS.len())];
            add(name, value);
        }
    }
    headers
}

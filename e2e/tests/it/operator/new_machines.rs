//! Prerequisites of new machines: certificates, tokens, user data, and approval of their certificate requests.

use api::annotations;
use api::machine::Machine;
use api::machineconfiguration::{ControllerConfig, MachineConfigPool};
use api::machinist::BootstrapToken;
use api::operator::MachineConfiguration;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::api::core::v1::{Node, Secret, ServiceAccount};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};
use testkit::objects::pool;
use testkit::{Kind, wait_for, wait_until};

use super::stage::{NAMESPACE, Stage, settings};
use crate::processes::daemon;

fn text(secret: &Secret, key: &str) -> String {
    String::from_utf8(secret.data.as_ref().unwrap()[key].0.clone()).unwrap()
}

#[tokio::test]
async fn a_new_machine_gets_user_data_a_token_and_approval_of_its_requests() {
    for kind in Kind::all() {
        let Some(stage) = Stage::start(kind).await else { continue };
        let operator = stage.operate(settings());
        stage.available().await;
        certificates_are_made_and_made_again(&stage).await;
        every_pool_has_user_data(&stage).await;
        only_known_machines_are_approved(&stage).await;
        a_machine_that_used_its_own_token_is_known(&stage).await;
        tokens_that_ended_long_ago_are_taken_away(&stage).await;
        the_policies_in_force_stand_in_a_status(&stage).await;
        secrets_of_the_user_reach_the_controller_config(&stage).await;
        let controllers = super::node_rights::control(stage.client.clone());
        super::node_rights::a_node_reads_its_own_pools_configs_and_no_others(&stage).await;
        and_a_node_of_a_paused_pool_with_its_own_rights(&stage).await;
        if kind == Kind::Real {
            super::pods::the_daemon_of_a_pod_looks_after_its_node_and_no_other(&stage).await;
        }
        controllers.abort();
        operator.abort();
        the_address_of_the_api_is_found(&stage).await;
    }
}

async fn certificates_are_made_and_made_again(stage: &Stage) {
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let has = |key: &'static str| {
        move |secret: Option<&Secret>| {
            secret.is_some_and(|one| one.data.as_ref().is_some_and(|data| data.contains_key(key)))
        }
    };
    let tls = wait_for(&secrets, "machine-config-server-tls", "the certificate", has("tls.crt")).await.unwrap();
    let names = operate::certificates::read(text(&tls, "tls.crt").as_bytes()).unwrap().remove(0).names;
    assert_eq!(names, ["api-int.example.com"]);
    let token = wait_for(&secrets, "node-bootstrapper-token", "the first token", has("token")).await.unwrap();
    assert!(!text(&token, "token").is_empty() && text(&token, "ca.crt").contains("BEGIN CERTIFICATE"));

    // A key that does not match the certificate is detected, and so is a missing certificate.
    let foreign = KeyPair::generate().unwrap().serialize_pem();
    let patch = Patch::Merge(json!({"stringData": {"tls.key": foreign}}));
    secrets.patch("machine-config-server-tls", &PatchParams::default(), &patch).await.unwrap();
    let before = text(&tls, "tls.crt");
    wait_for(&secrets, "machine-config-server-tls", "a new certificate", |secret| {
        secret.is_some_and(|secret| text(secret, "tls.crt") != before && text(secret, "tls.key") != foreign)
    })
    .await;
    let old_ca = text(&secrets.get("machine-config-server-ca").await.unwrap(), "tls.crt");
    secrets.delete("machine-config-server-ca", &DeleteParams::default()).await.unwrap();
    let configs: Api<ControllerConfig> = Api::all(stage.client.clone());
    wait_for(&configs, "machine-config-controller", "the new authority in the ControllerConfig", |config| {
        config.is_some_and(|config| {
            let root = String::from_utf8_lossy(&config.spec.root_ca_data.0).into_owned();
            root.contains("BEGIN CERTIFICATE") && !root.contains(old_ca.trim())
        })
    })
    .await;
}

async fn every_pool_has_user_data(stage: &Stage) {
    let pools: Api<MachineConfigPool> = Api::all(stage.client.clone());
    pools.create(&PostParams::default(), &pool("infra")).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), "openshift-machine-api");
    let authority: Api<Secret> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let ca = text(&authority.get("machine-config-server-ca").await.unwrap(), "tls.crt");
    for pool in ["master", "worker", "infra"] {
        let name = format!("{pool}-user-data-managed");
        let secret = wait_for(&secrets, &name, "user data with the newest CA", |secret| {
            let Some(secret) = secret else { return false };
            let pointer: Value = serde_json::from_str(&text(secret, "userData")).unwrap();
            let source = &pointer["ignition"]["security"]["tls"]["certificateAuthorities"][0]["source"];
            ignition::data_url::decode(source.as_str().unwrap()).unwrap() == ca.as_bytes()
        });
        let secret = secret.await.unwrap();
        let pointer: Value = serde_json::from_str(&text(&secret, "userData")).unwrap();
        let merge = &pointer["ignition"]["config"]["merge"][0];
        assert_eq!(merge["source"], format!("https://api-int.example.com:22623/config/{pool}"));
        let bearer = merge["httpHeaders"][0]["value"].as_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned();
        let tokens: Api<BootstrapToken> = Api::all(stage.client.clone());
        let hash = serving::token::hash(&bearer);
        let known = tokens.list(&ListParams::default()).await.unwrap();
        let token = known.iter().find(|token| token.spec.sha256 == hash).unwrap();
        assert_eq!((token.spec.pool.as_str(), token.spec.expires.is_some()), (pool, true));
        assert_eq!(text(&secret, "disableTemplating"), "true");
        assert!(text(&secret, "userData").len() < 2048, "clouds take little");
    }
    pools.delete("infra", &DeleteParams::default()).await.unwrap();
    wait_for(&secrets, "infra-user-data-managed", "user data to go with its pool", |secret| secret.is_none()).await;
}

fn request(name: &str, node: &str) -> CertificateSigningRequest {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    parameters.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
    let key = KeyPair::generate().unwrap();
    let pem = parameters.serialize_request(&key).unwrap().pem().unwrap();
    let mut request = CertificateSigningRequest {
        spec: CertificateSigningRequestSpec {
            request: ByteString(pem.into_bytes()),
            signer_name: "kubernetes.io/kube-apiserver-client-kubelet".into(),
            usages: Some(vec!["digital signature".into(), "client auth".into()]),
            ..CertificateSigningRequestSpec::default()
        },
        ..CertificateSigningRequest::default()
    };
    request.metadata.name = Some(name.to_owned());
    request
}

fn is_approved(request: Option<&CertificateSigningRequest>) -> bool {
    let status = request.and_then(|request| request.status.as_ref());
    status
        .and_then(|status| status.conditions.as_ref())
        .is_some_and(|all| all.iter().any(|one| one.type_ == "Approved"))
}

/// Returns a client with the token that kubelets are given.
async fn kubelet(stage: &Stage) -> Client {
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let token = text(&secrets.get("node-bootstrapper-token").await.unwrap(), "token");
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.client.clone(), NAMESPACE);
    assert!(accounts.get("node-bootstrapper").await.is_ok());
    let kubeconfig = kube::config::Kubeconfig::read_from(stage.control_plane.kubeconfig()).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    config.auth_info = serde_json::from_value(json!({"token": token})).unwrap();
    Client::try_from(config).unwrap()
}

async fn only_known_machines_are_approved(stage: &Stage) {
    let kubelet: Api<CertificateSigningRequest> = Api::all(kubelet(stage).await);
    kubelet.create(&PostParams::default(), &request("unknown", "intruder")).await.unwrap();
    kubelet.create(&PostParams::default(), &request("taken", "worker-1")).await.unwrap();
    kubelet.create(&PostParams::default(), &request("known", "new-1")).await.unwrap();
    let machines: Api<Machine> = Api::namespaced(stage.client.clone(), "openshift-machine-api");
    let machine: Machine = serde_json::from_value(json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "metadata": {"name": "new-1"}, "spec": {},
    }))
    .unwrap();
    machines.create(&PostParams::default(), &machine).await.unwrap();
    let addresses = json!([{"type": "InternalDNS", "address": "new-1"}, {"type": "InternalIP", "address": "10.0.0.9"}]);
    let patch = Patch::Merge(json!({"status": {"addresses": addresses}}));
    machines.patch_status("new-1", &PatchParams::default(), &patch).await.unwrap();
    let requests: Api<CertificateSigningRequest> = Api::all(stage.client.clone());
    wait_for(&requests, "known", "the machine's request to be approved", is_approved).await;
    // There is one worker, and these requests came first.
    for other in ["unknown", "taken"] {
        assert!(!is_approved(Some(&requests.get(other).await.unwrap())), "{other}");
    }
    let approved = requests.get("known").await.unwrap();
    assert_eq!(approved.spec.username.unwrap(), format!("system:serviceaccount:{NAMESPACE}:node-bootstrapper"));
}

/// Uses only what the operator created: the machine trusts the CA in its user data, the server presents its
/// certificate, and a token for one machine identifies that machine's request. The machine has no Machine object, as on
/// bare metal.
async fn a_machine_that_used_its_own_token_is_known(stage: &Stage) {
    let client = &stage.client;
    let kubelet: Api<CertificateSigningRequest> = Api::all(kubelet(stage).await);
    kubelet.create(&PostParams::default(), &request("second", "new-2")).await.unwrap();

    let config = testkit::objects::file_config("rendered-worker-0", "worker", "/etc/x", "x");
    Api::all(client.clone()).create(&PostParams::default(), &config).await.unwrap();
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    let status = json!({"status": {"configuration": {"name": "rendered-worker-0"}}});
    pools.patch_status("worker", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    for (secret, keys) in
        [("machine-config-server-tls", &["tls.crt", "tls.key"][..]), ("node-bootstrapper-token", &["token", "ca.crt"])]
    {
        let secret = secrets.get(secret).await.unwrap();
        keys.iter().for_each(|key| std::fs::write(folder.path().join(key), text(&secret, key)).unwrap());
    }
    let files = server::BootstrapFiles {
        api_server_url: "https://api-int.example.com:6443".to_owned(),
        folder: folder.path().to_owned(),
    };
    let settings = server::ClusterSettings { files, server_ca: None, namespace: NAMESPACE.to_owned() };
    let source = server::Source::Cluster(Box::new(server::ClusterSource::start(client.clone(), settings)));
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let secure = "127.0.0.1:0".parse().unwrap();
    let settings = server::Settings { secure, insecure: None, certificate, key, daemon: None, host: None };
    let listener = server::Listener::bind(settings, source).unwrap();
    let address = listener.address().unwrap();
    tokio::spawn(listener.run());

    let user_data: Api<Secret> = Api::namespaced(client.clone(), "openshift-machine-api");
    let user_data = text(&user_data.get("worker-user-data-managed").await.unwrap(), "userData");
    let pointer: Value = serde_json::from_str(&user_data).unwrap();
    let authority = &pointer["ignition"]["security"]["tls"]["certificateAuthorities"][0]["source"];
    let authority = ignition::data_url::decode(authority.as_str().unwrap()).unwrap();
    let web = reqwest::Client::builder().tls_certs_only([reqwest::Certificate::from_pem(&authority).unwrap()]);
    let web = web.resolve("api-int.example.com", address).build().unwrap();
    let url = format!("https://api-int.example.com:{}/config/worker", address.port());
    let grant =
        serving::token::Grant { pool: "worker".to_owned(), machine: Some("new-2".to_owned()), ..Default::default() };
    let own = cluster::tokens::issue(client, &grant).await.unwrap();
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    assert!(!is_approved(Some(&requests.get("second").await.unwrap())), "nothing is known of it yet");
    for token in [serving::pointer::token(&pointer).unwrap(), &own] {
        wait_until("the config to be served", || async {
            let answer = web.get(&url).bearer_auth(token).send().await.unwrap();
            (answer.status() == 200).then_some(())
        })
        .await;
    }
    wait_for(&requests, "second", "the request of the machine that was served to be approved", is_approved).await;
}

async fn tokens_that_ended_long_ago_are_taken_away(stage: &Stage) {
    let tokens: Api<BootstrapToken> = Api::all(stage.client.clone());
    let make = async |days: i64| {
        let expires = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days);
        let grant = serving::token::Grant { pool: "worker".into(), expires: Some(expires), ..Default::default() };
        let secret = cluster::tokens::issue(&stage.client, &grant).await.unwrap();
        serving::token::name("worker", &secret)
    };
    let (recent, old) = (make(6).await, make(8).await);
    wait_for(&tokens, &old, "the token to go", |token| token.is_none()).await;
    assert!(tokens.get_opt(&recent).await.unwrap().is_some(), "people may still want to see whom it let in");
}

async fn the_policies_in_force_stand_in_a_status(stage: &Stage) {
    let configurations: Api<MachineConfiguration> = Api::all(stage.client.clone());
    let policy = json!({"files": [{"path": "/etc/motd", "actions": [{"type": "None"}]}]});
    let patch = Patch::Merge(json!({"spec": {"nodeDisruptionPolicy": policy}}));
    configurations.patch("cluster", &PatchParams::default(), &patch).await.unwrap();
    wait_for(&configurations, "cluster", "the user's policy among the defaults", |object| {
        let Some(object) = object else { return false };
        let status = object.status.clone().unwrap_or_default();
        let merged = status.node_disruption_policy_status.and_then(|status| status.cluster_policies);
        let paths: Vec<String> = merged.into_iter().flat_map(|all| all.files).map(|file| file.path).collect();
        status.observed_generation == object.metadata.generation
            && ["/etc/motd", "/etc/containers/policy.json"].iter().all(|path| paths.iter().any(|one| one == path))
    })
    .await;
}

async fn secrets_of_the_user_reach_the_controller_config(stage: &Stage) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson", "metadata": {"name": "pull-secret"},
        "stringData": {".dockerconfigjson": r#"{"auths":{"registry.example":{"auth":"eDp5"}}}"#},
    });
    let bundle = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "image-registry-ca"},
        "data": {"registry.example..5000": "CA"},
    });
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), NAMESPACE);
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(stage.client.clone(), NAMESPACE);
    maps.create(&PostParams::default(), &serde_json::from_value(bundle).unwrap()).await.unwrap();
    let configs: Api<ControllerConfig> = Api::all(stage.client.clone());
    let config =
        wait_for(&configs, "machine-config-controller", "pull secret and CA in the ControllerConfig", |config| {
            config.is_some_and(|config| {
                config.spec.internal_registry_pull_secret.is_some()
                    && !config.spec.image_registry_bundle_user_data.is_empty()
            })
        });
    let config = config.await.unwrap();
    assert_eq!(config.spec.image_registry_bundle_user_data[0].file, "registry.example..5000");
    assert_eq!(config.spec.pull_secret.unwrap().name.as_deref(), Some("pull-secret"));
}

/// Without a setting, the address is read from where kubeadm publishes it.
async fn the_address_of_the_api_is_found(stage: &Stage) {
    cluster::ensure_namespace(&stage.client, "kube-public").await.unwrap();
    let published = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info"},
        "data": {"kubeconfig": "apiVersion: v1\nclusters:\n- cluster:\n    server: https://found.example.com:6443\n  name: \"\"\n"},
    });
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(stage.client.clone(), "kube-public");
    maps.create(&PostParams::default(), &serde_json::from_value(published).unwrap()).await.unwrap();
    let mut settings = settings();
    settings.installation.api_url = None;
    let operator = stage.operate(settings);
    let arguments = |set: &k8s_openapi::api::apps::v1::DaemonSet| {
        let pod = set.spec.as_ref()?.template.spec.as_ref()?;
        pod.containers.first()?.args.clone()
    };
    wait_for(&stage.daemon_sets, "machine-config-server", "the server to be told where the API is", |set| {
        let arguments = set.and_then(arguments).unwrap_or_default();
        ["--apiserver-url=https://found.example.com:6443", "--server=found.example.com:22623"]
            .iter()
            .all(|wanted| arguments.iter().any(|argument| argument == wanted))
    })
    .await;
    operator.abort();
}

/// Runs the real daemon with the kubelet's credential and the permissions of an installation, on a folder as its host.
async fn and_a_node_of_a_paused_pool_with_its_own_rights(stage: &Stage) {
    let pools: Api<MachineConfigPool> = Api::all(stage.client.clone());
    let paused = Patch::Merge(json!({"spec": {"paused": true}}));
    pools.patch("worker", &PatchParams::default(), &paused).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let _daemon = daemon(&stage.control_plane, folder.path(), "worker-1", &root);
    let configs: Api<ControllerConfig> = Api::all(stage.client.clone());
    let nodes: Api<Node> = Api::all(stage.client.clone());
    wait_until("the certificates of the newest ControllerConfig to be synced", || async {
        let version = configs.get("machine-config-controller").await.ok()?.resource_version()?;
        let node = nodes.get("worker-1").await.ok()?;
        (node.annotations().get(annotations::LAST_SYNCED_CONTROLLER_CONFIG) == Some(&version)).then_some(())
    })
    .await;
    let ca = std::fs::read_to_string(root.join("etc/kubernetes/kubelet-ca.crt")).unwrap();
    assert!(ca.contains("BEGIN CERTIFICATE"), "{ca}");
    let secret = std::fs::read_to_string(root.join("etc/mco/internal-registry-pull-secret.json")).unwrap();
    assert!(secret.contains("registry.example"));
    assert_eq!(std::fs::read_to_string(root.join("etc/docker/certs.d/registry.example:5000/ca.crt")).unwrap(), "CA\n");
}

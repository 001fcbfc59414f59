//! What hosts start from, by profile and role.

use api::machineconfiguration::ControllerConfigSpec;
use expect_test::{Expect, expect};
use serde_json::json;
use typed::kubelet;
use typed::runtime::main_file::MainFile;
use typed::templates::{Config, Parameters, Profile, Template, Templates};

pub(crate) fn controller_config() -> ControllerConfigSpec {
    serde_json::from_value(json!({
        "additionalTrustBundle": null, "baseOSContainerImage": "", "cloudProviderCAData": null, "cloudProviderConfig": "",
        "clusterDNSIP": "172.30.0.10", "dns": null, "images": {"infraImageKey": "registry.local/pause@sha256:1"},
        "infra": {"spec": {}, "status": {
            "platformStatus": {"type": "None"}, "controlPlaneTopology": "HighlyAvailable",
            "apiServerInternalURI": "https://api-int.lab.local:6443",
        }},
        "ipFamilies": "IPv4", "kubeAPIServerServingCAData": "Y2E=", "network": null, "proxy": null, "releaseImage": "",
        "rootCAData": "cm9vdA==",
    }))
    .unwrap()
}

pub(crate) fn parameters(role: &str) -> Parameters {
    let given = Parameters::new(&controller_config(), Some(br#"{"auths": {}}"#), None).unwrap();
    Parameters { role: role.to_owned(), runtime: "crio".to_owned(), ..given }
}

#[track_caller]
fn check(profile: Profile, parameters: &Parameters, expected: Expect) {
    let mut shown = String::new();
    for (config, fragment) in Templates::builtin(profile).render(parameters).unwrap() {
        shown += &format!("{}\n", config.name(&parameters.role));
        let files = fragment.files.iter().map(|file| format!("  {:o} {}\n", file.mode, file.path));
        let units = fragment.units.iter().map(|unit| {
            let dropins: Vec<_> = unit.dropins.iter().map(|(name, _)| name.as_str()).collect();
            format!("  unit {} {:?} {:?} {}\n", unit.name, unit.enabled, unit.mask, dropins.join(" "))
        });
        shown.extend(files.chain(units));
    }
    expected.assert_eq(&shown);
}

#[test]
fn a_worker_of_openshift_has_the_paths_that_users_know() {
    check(
        Profile::OpenShift,
        &parameters("worker"),
        expect![[r#"
        00-worker
          644 /etc/NetworkManager/conf.d/01-ipv6.conf
          644 /etc/NetworkManager/conf.d/20-keyfiles.conf
          644 /etc/NetworkManager/conf.d/sdn.conf
          644 /etc/audit/rules.d/mco-audit-quiet-containers.rules
          644 /etc/kubernetes/apiserver-url.env
          644 /etc/kubernetes/kubelet-plugins/volume/exec/.dummy
          600 /etc/mco/proxy.env
          644 /etc/modules-load.d/iptables.conf
          644 /etc/node-sizing-enabled.env
          644 /etc/sysctl.d/arp.conf
          644 /etc/sysctl.d/enable-userfaultfd.conf
          644 /etc/sysctl.d/inotify.conf
          644 /etc/sysctl.d/vm-max-map.conf
          644 /etc/systemd/system.conf.d/kubelet-cgroups.conf
          644 /etc/systemd/system/kubelet.service.d/20-logging.conf
          644 /etc/tmpfiles.d/cleanup-cni.conf
          755 /usr/local/bin/mco-hostname
          755 /usr/local/sbin/dynamic-system-reserved-calc.sh
          600 /var/lib/kubelet/config.json
          unit kubelet-auto-node-size.service Some(true) None 
          unit node-valid-hostname.service Some(true) None 
          unit zincati.service None Some(true) 
        01-worker-kubelet
          644 /etc/kubernetes/ca.crt
          644 /etc/kubernetes/kubelet-ca.crt
          644 /etc/kubernetes/kubelet.conf
          unit kubelet.service Some(true) None 
        01-worker-container-runtime
          644 /etc/containers/policy.json
          644 /etc/containers/registries.conf
          644 /etc/containers/storage.conf
          644 /etc/crio/crio.conf.d/00-default
    "#]],
    );
}

#[test]
fn hosts_that_are_not_ours_start_from_nothing() {
    for profile in [Profile::Kubeadm, Profile::K3s, Profile::None] {
        check(
            profile,
            &parameters("worker"),
            expect![[r#"
                00-worker
                01-worker-kubelet
                01-worker-container-runtime
            "#]],
        );
    }
}

#[test]
fn every_role_has_a_kubelet_configuration_that_a_kubelet_accepts() {
    for role in ["master", "worker", "arbiter"] {
        for topology in ["HighlyAvailable", "DualReplica"] {
            let given = Parameters { topology: topology.to_owned(), ..parameters(role) };
            let fragments = Templates::builtin(Profile::OpenShift).render(&given).unwrap();
            let text = fragments[&Config::Kubelet].file(kubelet::CONFIGURATION).unwrap();
            let object: serde_json::Map<_, _> = serde_saphyr::from_str(text).unwrap();
            let empty = serde_json::Map::new();
            kubelet::limits::check(&empty, &object).unwrap();
            assert_eq!(object["clusterDNS"], json!(["172.30.0.10"]));
            assert_eq!(object["tlsMinVersion"], "VersionTLS12");
        }
    }
}

#[test]
fn scripts_and_units_are_filled_in_without_a_trace_of_the_template() {
    for role in ["master", "worker", "arbiter"] {
        for runtime in ["crio", "containerd"] {
            // Off OpenShift there are no images to name.
            let given = Parameters { runtime: runtime.to_owned(), images: [].into(), ..parameters(role) };
            for (config, fragment) in Templates::builtin(Profile::OpenShift).render(&given).unwrap() {
                let units = fragment
                    .units
                    .iter()
                    .flat_map(|unit| unit.contents.iter().chain(unit.dropins.iter().map(|it| &it.1)));
                for text in fragment.files.iter().map(|file| &file.contents).chain(units) {
                    assert!(!text.contains("{{") && !text.contains("{%"), "{config:?}: {text}");
                }
            }
        }
    }
}

#[test]
fn later_folders_replace_earlier_ones_and_empty_templates_remove() {
    let template = |path: &str, text: &str| Template { path: path.to_owned(), text: text.to_owned() };
    let file = |content: &str| format!("---\npath: /etc/a\n---\n{content}\n");
    let rendered = |templates: Vec<Template>| {
        let fragments = Templates::new(templates).render(&parameters("worker"));
        fragments.map(|fragments| fragments[&Config::Base].file("/etc/a").map(str::to_owned))
    };
    let common = template("common/00/a", &file("common for {{ role }}"));
    assert_eq!(rendered(vec![common.clone()]).unwrap().as_deref(), Some("common for worker\n"));
    let role = template("role/worker/00/a", &file("role"));
    let other = template("role/master/00/a", &file("other"));
    assert_eq!(rendered(vec![role.clone(), common.clone(), other]).unwrap().as_deref(), Some("role\n"));
    let gone = template("platform/none/00/a", "");
    assert_eq!(rendered(vec![role, common, gone]).unwrap(), None);
}

#[test]
fn a_template_that_does_not_work_is_named_with_its_line() {
    let refused = |path: &str, text: &str| {
        let template = Template { path: path.to_owned(), text: text.to_owned() };
        Templates::new(vec![template]).render(&parameters("worker")).unwrap_err().to_string()
    };
    expect!["template common/00/a: it cannot be filled in: undefined value in line 4"]
        .assert_eq(&refused("common/00/a", "---\npath: /etc/a\n---\n{{ no_such_name }}\n"));
    expect!["template common/00/a: its head is wrong: it must begin with a head between two lines of ---"]
        .assert_eq(&refused("common/00/a", "just text"));
    expect![[r#"template common/00/a: its head is wrong: path "etc/a" is not absolute"#]]
        .assert_eq(&refused("common/00/a", "---\npath: etc/a\n---\nx"));
    assert!(refused("elsewhere/a", "x").contains("lies in no folder that we know"));
}

pub(crate) mod planning {
    use std::collections::{BTreeMap, BTreeSet};

    use api::machineconfiguration::ControllerConfig;
    use jiff::Timestamp;
    use typed::templates::plan::{Snapshot, plan};
    use typed::templates::{Profile, Runtime, Template, Templates};

    use super::{controller_config, expect};

    pub(crate) fn snapshot(profile: Profile) -> Snapshot {
        let mut controller_config = ControllerConfig::new("machine-config-controller", controller_config());
        controller_config.metadata.uid = Some("uid".to_owned());
        controller_config.metadata.generation = Some(3);
        Snapshot {
            now: Timestamp::UNIX_EPOCH,
            version: "v1".to_owned(),
            profile,
            runtime: Runtime::Crio,
            templates: Templates::builtin(profile),
            controller_config,
            pull_secret: Ok(None),
            mixed_runtimes: None,
            api_tls: None,
            certificates: Vec::new(),
            machine_configs: Vec::new(),
            originals: BTreeMap::new(),
            adopt: BTreeSet::new(),
        }
    }

    /// Carries a plan out and returns what it told.
    pub(crate) fn step(snapshot: &mut Snapshot) -> Vec<String> {
        let found = plan(snapshot);
        for config in found.apply {
            snapshot.machine_configs.retain(|live| live.metadata.name != config.metadata.name);
            snapshot.machine_configs.push(config);
        }
        snapshot.machine_configs.retain(|live| !found.delete.contains(live.metadata.name.as_ref().unwrap()));
        snapshot.originals.extend(found.originals.into_iter().map(|(name, kept)| (name, kept.original)));
        for update in found.updates {
            snapshot.controller_config.status = serde_json::from_value(update.status.unwrap()).unwrap();
        }
        found.events.into_iter().map(|event| event.message).collect()
    }

    pub(crate) fn names(snapshot: &Snapshot) -> Vec<&str> {
        let mut names: Vec<_> =
            snapshot.machine_configs.iter().filter_map(|config| config.metadata.name.as_deref()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn says(snapshot: &Snapshot) -> String {
        let status = snapshot.controller_config.status.clone().unwrap_or_default();
        let shown = status.conditions.iter().map(|it| format!("{}={}", it.type_, it.status));
        format!("{} {}", shown.collect::<Vec<_>>().join(" "), status.conditions[1].message.clone().unwrap_or_default())
    }

    #[test]
    fn one_reconcile_makes_three_configs_for_each_role() {
        let mut world = snapshot(Profile::OpenShift);
        step(&mut world);
        assert_eq!(
            names(&world),
            [
                "00-master",
                "00-worker",
                "01-master-container-runtime",
                "01-master-kubelet",
                "01-worker-container-runtime",
                "01-worker-kubelet",
            ]
        );
        expect!["TemplateControllerRunning=False TemplateControllerCompleted=True TemplateControllerFailing=False sync completed towards (3) generation using controller version v1"]
            .assert_eq(&says(&world));
        assert!(plan(&world).is_empty(), "nothing is left to do");
    }

    #[test]
    fn an_edit_is_put_back_and_the_event_names_the_place_to_change() {
        let mut world = snapshot(Profile::OpenShift);
        step(&mut world);
        let before = world.machine_configs.clone();
        world.machine_configs[0].spec.kernel_type = Some("realtime".to_owned());
        assert_eq!(
            step(&mut world),
            [
                "MachineConfig 00-master was changed by somebody and put back; change ControllerConfig machine-config-controller instead"
            ]
        );
        let (mut before, mut after) = (before, world.machine_configs.clone());
        before.sort_by_key(|config| config.metadata.name.clone());
        after.sort_by_key(|config| config.metadata.name.clone());
        assert_eq!(before, after);
    }

    #[test]
    fn what_another_controller_made_is_kept_until_it_is_adopted() {
        let mut world = snapshot(Profile::OpenShift);
        step(&mut world);
        for config in &mut world.machine_configs {
            config.metadata.annotations.as_mut().unwrap().retain(|key, _| !key.starts_with("machinist.dev/"));
            config.spec.extensions = vec!["usbguard".to_owned()];
        }
        let theirs = world.machine_configs.clone();
        step(&mut world);
        assert_eq!(world.machine_configs, theirs);
        assert!(
            says(&world).contains("kept as another controller made them: 00-master, 00-worker"),
            "{}",
            says(&world)
        );
        world.machine_configs[0].spec.extensions.clear();
        assert!(step(&mut world)[0].contains("`machinist adopt` makes it ours"));
        assert!(world.machine_configs.iter().all(|config| config.spec.extensions == ["usbguard"]));
        world.adopt.insert("00-worker".to_owned());
        step(&mut world);
        let adopted: Vec<_> = world.machine_configs.iter().filter(|config| config.spec.extensions.is_empty()).collect();
        assert_eq!(adopted.len(), 1);
        assert_eq!(adopted[0].metadata.name.as_deref(), Some("00-worker"));
    }

    #[test]
    fn a_template_that_does_not_work_is_reported_and_leaves_hosts_alone() {
        let mut world = snapshot(Profile::OpenShift);
        step(&mut world);
        let before = world.machine_configs.clone();
        world.templates = Templates::new(vec![Template { path: "common/00/a".into(), text: "{{".into() }]);
        step(&mut world);
        assert_eq!(world.machine_configs, before);
        assert!(
            says(&world).contains("TemplateControllerFailing=True failed to syncing towards (3)"),
            "{}",
            says(&world)
        );
        assert!(says(&world).contains("template common/00/a: it cannot be filled in"), "{}", says(&world));
    }

    #[test]
    fn a_broken_pull_secret_is_reported_without_its_content() {
        let mut world = snapshot(Profile::OpenShift);
        world.pull_secret = Ok(Some(b"{\"auths\": hunter2".to_vec()));
        step(&mut world);
        let said = says(&world);
        assert!(said.contains("the pull secret is not a docker config") && !said.contains("hunter2"), "{said}");
        assert!(world.machine_configs.is_empty());
    }

    #[test]
    fn a_role_that_goes_takes_its_configs_along() {
        let mut world = snapshot(Profile::OpenShift);
        let topology = |world: &mut Snapshot, name: &str| {
            let infra = world.controller_config.spec.infra.as_mut().unwrap();
            infra.status.as_mut().unwrap().control_plane_topology = Some(name.to_owned());
        };
        topology(&mut world, "HighlyAvailableArbiter");
        step(&mut world);
        assert!(names(&world).contains(&"01-arbiter-kubelet"));
        topology(&mut world, "HighlyAvailable");
        step(&mut world);
        assert_eq!(names(&world).len(), 6);
    }

    #[test]
    fn an_installation_on_hosts_that_are_not_ours_changes_nothing_on_them() {
        for profile in [Profile::Kubeadm, Profile::K3s, Profile::None] {
            let mut world = snapshot(profile);
            step(&mut world);
            assert!(world.machine_configs.is_empty(), "{:?}", names(&world));
            assert!(says(&world).contains("TemplateControllerCompleted=True"), "{}", says(&world));
        }
    }

    #[test]
    fn hosts_keep_what_they_have_while_the_pull_secret_cannot_be_read() {
        let mut world = snapshot(Profile::OpenShift);
        step(&mut world);
        let before = world.machine_configs.clone();
        world.pull_secret = Err("cannot read secrets: 503".to_owned());
        step(&mut world);
        assert_eq!(world.machine_configs, before);
        assert!(says(&world).contains("TemplateControllerFailing=True"), "{}", says(&world));
    }
}

#[test]
fn a_containerd_of_either_version_reads_what_is_generated_for_it() {
    for (runtime_major, version) in [(1, 2), (2, 3)] {
        let given = Parameters { runtime: "containerd".to_owned(), runtime_major, ..parameters("worker") };
        let fragments = Templates::builtin(Profile::OpenShift).render(&given).unwrap();
        let text = fragments[&Config::ContainerRuntime].file("/etc/containerd/config.toml").unwrap();
        let content: toml::Table = toml::from_str(text).unwrap();
        assert_eq!(content["version"].as_integer(), Some(version), "{text}");
        assert!(text.contains("registry.local/pause@sha256:1"), "{text}");
        let file = MainFile::parse("the templates", text);
        assert!(file.reads_hosts() && file.reads_dropins(), "{text}");
    }
}

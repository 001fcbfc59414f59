//! Templates and parameters with faults, and what is secret about them.

use serde_json::json;
use typed::templates::{Config, Parameters, Profile, Template, Templates};

use crate::templates::planning::{names, says, snapshot, step};
use crate::templates::{controller_config, parameters};

fn template(path: &str, text: &str) -> Template {
    Template { path: path.into(), text: text.into() }
}

#[test]
fn two_templates_for_one_place_are_told_by_name() {
    let file = "---\npath: /etc/a\n---\nx\n";
    let templates = Templates::new(vec![template("common/00/a", file), template("role/worker/00/b", file)]);
    let error = templates.render(&parameters("worker")).unwrap_err().to_string();
    assert_eq!(
        error,
        "template role/worker/00/b: /etc/a is also made by template common/00/a; give both one name, so that the later folder counts, or remove one"
    );
    assert!(templates.render(&parameters("master")).is_ok());
    let dropin = "---\nunit: a.service\ndropin: 10-x.conf\n---\n[Service]\n";
    let templates = Templates::new(vec![template("common/00/a", dropin), template("common/00/b", dropin)]);
    let error = templates.render(&parameters("worker")).unwrap_err().to_string();
    assert!(error.contains("a.service.d/10-x.conf is also made by template common/00/a"), "{error}");
}

#[test]
fn only_root_reads_the_credentials_of_a_proxy() {
    let mut spec = controller_config();
    let proxy = json!({"httpProxy": "http://user:hunter2@proxy:3128", "httpsProxy": "http://user:hunter2@proxy:3128"});
    spec.proxy = serde_json::from_value(proxy).unwrap();
    let given = Parameters::new(&spec, None, None).unwrap();
    let given = Parameters { role: "worker".to_owned(), runtime: "crio".to_owned(), ..given };
    let rendered = Templates::builtin(Profile::OpenShift).render(&given).unwrap();
    let files = &rendered[&Config::Base].files;
    let with_secret: Vec<_> = files.iter().filter(|file| file.contents.contains("hunter2")).collect();
    assert_eq!(with_secret.len(), 1);
    assert_eq!(with_secret[0].mode, 0o600, "{}", with_secret[0].path);
}

#[test]
fn values_that_would_add_a_line_to_an_environment_are_refused() {
    for (field, proxy) in [
        ("httpProxy", json!({"httpProxy": "http://hunter2\nLD_PRELOAD=/tmp/x"})),
        ("httpsProxy", json!({"httpsProxy": "http://hunter2\\"})),
        ("noProxy", json!({"httpProxy": "http://p", "noProxy": "hunter2\n"})),
    ] {
        let mut spec = controller_config();
        spec.proxy = serde_json::from_value(proxy).unwrap();
        let error = Parameters::new(&spec, None, None).unwrap_err().to_string();
        assert!(error.contains(field) && !error.contains("hunter2"), "{error}");
    }
    let mut spec = controller_config();
    spec.infra.as_mut().unwrap().status.as_mut().unwrap().api_server_internal_uri =
        Some("https://api'\nA=b:6443".to_owned());
    assert!(Parameters::new(&spec, None, None).unwrap_err().to_string().contains("apiServerInternalURI"));
}

#[test]
fn an_address_of_ipv6_is_given_without_brackets() {
    let mut spec = controller_config();
    spec.infra.as_mut().unwrap().status.as_mut().unwrap().api_server_internal_uri =
        Some("https://[fd00::1]:6443".to_owned());
    let given = Parameters::new(&spec, None, None).unwrap();
    assert_eq!((given.api_host.as_str(), given.api_port.as_str()), ("fd00::1", "6443"));
}

#[test]
fn nothing_secret_is_in_what_debugging_prints() {
    let secret = br#"{"auths": {"quay.io": {"auth": "hunter2"}}}"#;
    let mut spec = controller_config();
    spec.proxy = serde_json::from_value(json!({"httpProxy": "http://user:hunter2@proxy"})).unwrap();
    let given = Parameters::new(&spec, Some(secret), None).unwrap();
    let given = Parameters { role: "worker".to_owned(), runtime: "crio".to_owned(), ..given };
    let mut world = snapshot(Profile::OpenShift);
    world.controller_config.spec = spec;
    world.pull_secret = Ok(Some(secret.to_vec()));
    let plan = typed::templates::plan::plan(&world);
    step(&mut world);
    let rendered = Templates::builtin(Profile::OpenShift).render(&given).unwrap();
    assert!(rendered[&Config::Base].files.iter().any(|file| file.contents.contains("hunter2")));
    let bytes = format!("{:?}", b"hunter2").trim_matches(['[', ']']).to_owned();
    for (what, shown) in [
        ("parameters", format!("{given:?}")),
        ("snapshot", format!("{world:?}")),
        ("plan", format!("{plan:?}")),
        ("fragments", format!("{rendered:?}")),
    ] {
        assert!(!shown.contains("hunter2") && !shown.contains(&bytes), "{what}: {shown}");
        assert!(!shown.contains("base64,"), "{what}: {shown}");
    }
}

#[test]
fn a_folder_without_templates_does_not_empty_hosts() {
    let mut world = snapshot(Profile::OpenShift);
    step(&mut world);
    let before = world.machine_configs.clone();
    world.templates = Templates::new(Vec::new());
    step(&mut world);
    assert_eq!(world.machine_configs, before);
    assert!(says(&world).contains("there are no templates"), "{}", says(&world));
}

#[test]
fn arbiters_stay_while_the_topology_is_not_known() {
    let mut world = snapshot(Profile::OpenShift);
    let topology = |world: &mut typed::templates::plan::Snapshot, name: Option<&str>| {
        let infra = world.controller_config.spec.infra.as_mut().unwrap();
        infra.status.as_mut().unwrap().control_plane_topology = name.map(str::to_owned);
    };
    topology(&mut world, Some("HighlyAvailableArbiter"));
    step(&mut world);
    topology(&mut world, None);
    step(&mut world);
    assert!(names(&world).contains(&"01-arbiter-kubelet"));
}

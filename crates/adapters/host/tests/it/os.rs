//! The OS tools, with stand-ins that write down what they are asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use change::host::{Backend, Error, KernelChange, PackageChange};
use host::os::{Os, Run};

#[derive(Default)]
struct Tools {
    has: Vec<&'static str>,
    answers: BTreeMap<&'static str, &'static str>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Run for Tools {
    fn has(&self, program: &str) -> bool {
        self.has.contains(&program)
    }

    fn run(&self, program: &str, arguments: &[String]) -> Result<String, Error> {
        let line = format!("{program} {}", arguments.join(" "));
        let answer =
            self.answers.iter().find(|(asked, _)| line.starts_with(*asked)).map(|(_, answer)| (*answer).to_owned());
        self.asked.lock().unwrap().push(line);
        Ok(answer.unwrap_or_default())
    }
}

fn rpm_ostree() -> (Os, Arc<Mutex<Vec<String>>>) {
    let status = r#"{"deployments":[{"booted":false},{"booted":true,"container-image-reference":"ostree-unverified-registry:quay.io/os@sha256:1"}]}"#;
    let answers = BTreeMap::from([("rpm-ostree status", status), ("rpm-ostree kargs", "root=UUID=1 quiet\n")]);
    let tools = Tools { has: vec!["rpm-ostree"], answers, ..Tools::default() };
    let asked = Arc::clone(&tools.asked);
    (Os::new(Box::new(tools)), asked)
}

#[test]
fn rpm_ostree_is_asked_as_administrators_would() {
    let (os, asked) = rpm_ostree();
    assert_eq!(os.backend(), Some(Backend::RpmOstree));
    assert_eq!(os.booted_image().unwrap().unwrap(), "quay.io/os@sha256:1");
    assert_eq!(os.kernel_arguments().unwrap(), "root=UUID=1 quiet\n");
    os.change_kernel_arguments(&["quiet".into()], &["p=\"1 2\"".into()]).unwrap();
    os.stage_image("quay.io/os@sha256:2").unwrap();
    os.drop_staged().unwrap();
    let kernel = Some(KernelChange { from: "default".into(), to: "realtime".into() });
    os.change_packages(&PackageChange { install: vec!["usbguard".into()], uninstall: vec!["sysstat".into()], kernel })
        .unwrap();
    assert_eq!(
        asked.lock().unwrap()[2..],
        [
            "rpm-ostree kargs --delete-if-present=quiet --append=p=\"1 2\"",
            "rpm-ostree rebase --experimental ostree-unverified-registry:quay.io/os@sha256:2",
            "rpm-ostree cleanup -p",
            "rpm-ostree override remove kernel kernel-core kernel-modules kernel-modules-core kernel-modules-extra --install kernel-rt-core --install kernel-rt-modules --install kernel-rt-modules-extra",
            "rpm-ostree update --install usbguard --uninstall sysstat",
        ]
    );
}

#[test]
fn bootc_alone_stages_images_and_refuses_the_rest_in_words() {
    let status = r#"{"status":{"booted":{"image":{"image":{"image":"quay.io/os:latest"},"imageDigest":"sha256:9"}}}}"#;
    let tools = Tools { has: vec!["bootc"], answers: BTreeMap::from([("bootc status", status)]), ..Tools::default() };
    let asked = Arc::clone(&tools.asked);
    let os = Os::new(Box::new(tools));
    assert_eq!(os.backend(), Some(Backend::Bootc));
    assert_eq!(os.booted_image().unwrap().unwrap(), "quay.io/os@sha256:9");
    os.stage_image("quay.io/os@sha256:2").unwrap();
    assert_eq!(asked.lock().unwrap()[1], "bootc switch quay.io/os@sha256:2");
    let error = os.change_kernel_arguments(&[], &["a".into()]).unwrap_err().to_string();
    assert!(error.contains("bootc alone cannot change kernel arguments"), "{error}");
}

#[test]
fn a_host_with_neither_says_so() {
    let os = Os::new(Box::new(Tools::default()));
    assert_eq!(os.backend(), None);
    assert_eq!(os.booted_image().unwrap(), None);
    assert!(os.stage_image("x").unwrap_err().to_string().contains("neither bootc nor rpm-ostree"));
}

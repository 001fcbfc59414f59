//! The OS tools, with stand-ins that write down what they are asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use change::host::{Backend, Error, ErrorKind, Host, HostPath, KernelChange, PackageChange};
use host::machine::Machine;
use host::os::{Os, Programs, Run};

#[derive(Default)]
struct Tools {
    has: Vec<&'static str>,
    answers: BTreeMap<&'static str, &'static str>,
    asked: Arc<Mutex<Vec<String>>>,
    /// How often images cannot be had before they can.
    failures: Mutex<usize>,
    /// Files of the host.
    files: Vec<&'static str>,
    /// What a program says when it fails.
    fails: BTreeMap<&'static str, &'static str>,
    /// Whether images never come, and the program is stopped at its limit.
    hangs: bool,
    /// What bootc says that it has staged, each time it is asked.
    staged: Mutex<Vec<&'static str>>,
}

/// How programs are run outside the daemon's sandbox.
const OUTSIDE: &str = "systemd-run --quiet --wait --collect --pipe --unit=machinistd-outside.service ";

impl Run for Tools {
    fn has(&self, program: &str) -> bool {
        self.has.contains(&program)
    }

    fn run(&self, program: &str, arguments: &[String]) -> Result<String, Error> {
        let line = format!("{program} {}", arguments.join(" "));
        let answer =
            self.answers.iter().find(|(asked, _)| line.starts_with(*asked)).map(|(_, answer)| (*answer).to_owned());
        self.asked.lock().unwrap().push(line.clone());
        if self.hangs && (line.contains("rebase") || line.contains("switch")) {
            return Err(Error::new(ErrorKind::TimedOut, "run", program, "it was stopped"));
        }
        if line.starts_with("bootc status") && !self.staged.lock().unwrap().is_empty() {
            return Ok(format!(r#"{{"status":{{"staged":{}}}}}"#, self.staged.lock().unwrap().remove(0)));
        }
        if let Some(detail) = self.fails.get(program) {
            return Err(Error::new(ErrorKind::Failed, "run", program, *detail));
        }
        let mut failures = self.failures.lock().unwrap();
        if *failures > 0 && (line.contains("rebase") || line.contains("switch")) {
            *failures -= 1;
            return Err(Error::new(ErrorKind::Failed, "run", program, "the registry is away"));
        }
        Ok(answer.unwrap_or_default())
    }

    fn lay(&self, path: &str, contents: Option<&str>) -> Result<(), Error> {
        let word = if contents.is_some() { "write" } else { "remove" };
        self.asked.lock().unwrap().push(format!("{word} {path}"));
        Ok(())
    }

    fn is_there(&self, path: &str) -> bool {
        self.files.contains(&path)
    }

    fn link(&self, path: &str, target: &str) -> Result<(), Error> {
        self.asked.lock().unwrap().push(format!("link {path} to {target}"));
        Ok(())
    }

    fn pause(&self, time: Duration) {
        self.asked.lock().unwrap().push(format!("wait {} s", time.as_secs()));
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
    let (install, uninstall) = (vec!["usbguard".into()], vec!["sysstat".into()]);
    os.change_packages(&PackageChange { install, uninstall, kernel, image: String::new() }).unwrap();
    assert_eq!(
        asked.lock().unwrap()[2..],
        [
            "rpm-ostree kargs --delete-if-present=quiet --append-if-missing=p=\"1 2\"",
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
    assert_eq!(
        asked.lock().unwrap()[1..],
        ["systemctl stop machinistd-outside.service".to_owned(), format!("{OUTSIDE}bootc switch quay.io/os@sha256:2")],
        "it mounts, so it runs outside the daemon's sandbox"
    );
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

#[test]
fn packages_come_from_the_extensions_image_and_nothing_of_it_stays() {
    let answers = BTreeMap::from([(
        "systemd-run --quiet --wait --collect --pipe --unit=machinistd-outside.service podman create",
        "c0ffee\n",
    )]);
    let tools = Tools { has: vec!["rpm-ostree"], answers, ..Tools::default() };
    let asked = Arc::clone(&tools.asked);
    let install = vec!["usbguard".into()];
    let change = PackageChange { install, image: "quay.io/ext@sha256:1".into(), ..PackageChange::default() };
    Os::new(Box::new(tools)).change_packages(&change).unwrap();
    let asked = asked.lock().unwrap().join("\n").replace(OUTSIDE, "");
    assert_eq!(
        asked,
        "systemctl stop machinistd-outside.service\n\
         podman pull --quiet --authfile /var/lib/kubelet/config.json quay.io/ext@sha256:1\n\
         rm -rf /run/mco-extensions/os-extensions-content\n\
         mkdir -p /run/mco-extensions/os-extensions-content\n\
         podman create --net=none quay.io/ext@sha256:1 none\n\
         podman cp c0ffee:/. /run/mco-extensions/os-extensions-content\n\
         podman rm c0ffee\n\
         write /etc/yum.repos.d/coreos-extensions.repo\n\
         rpm-ostree update --install usbguard\n\
         remove /etc/yum.repos.d/coreos-extensions.repo\n\
         rm -rf /run/mco-extensions/os-extensions-content"
    );
}

#[test]
fn an_image_that_cannot_be_had_is_tried_seven_times_with_longer_and_longer_pauses() {
    for (failures, works) in [(6, true), (7, false)] {
        let tools = Tools { has: vec!["rpm-ostree"], failures: Mutex::new(failures), ..Tools::default() };
        let asked = Arc::clone(&tools.asked);
        assert_eq!(Os::new(Box::new(tools)).stage_image("quay.io/os@sha256:2").is_ok(), works);
        let asked = asked.lock().unwrap();
        assert_eq!(asked.iter().filter(|line| line.contains("rebase")).count(), 7);
        let pauses: Vec<&str> = asked.iter().filter_map(|line| line.strip_prefix("wait ")).collect();
        assert_eq!(pauses, ["10 s", "20 s", "40 s", "60 s", "60 s", "60 s"]);
    }
}

#[test]
fn an_image_is_pulled_with_the_kubelets_pull_secret_unless_somebody_gave_other_credentials() {
    let staged = |files: &[&'static str]| {
        let tools = Tools { has: vec!["rpm-ostree"], files: files.to_vec(), ..Tools::default() };
        let asked = Arc::clone(&tools.asked);
        Os::new(Box::new(tools)).stage_image("quay.io/os@sha256:2").unwrap();
        asked.lock().unwrap().first().cloned().unwrap()
    };
    let (secret, pulls) = ("/var/lib/kubelet/config.json", "rpm-ostree rebase");
    assert_eq!(staged(&[secret]), format!("link /run/ostree/auth.json to {secret}"));
    assert!(staged(&[]).starts_with(pulls), "a node without a pull secret has none to lend");
    assert!(staged(&[secret, "/run/ostree/auth.json"]).starts_with(pulls), "once is enough");
    assert!(staged(&[secret, "/etc/ostree/auth.json"]).starts_with(pulls), "the administrator's are used");
}

#[test]
fn an_rpm_ostree_that_is_stopped_leaves_no_transaction_behind() {
    let tools = Tools { has: vec!["rpm-ostree"], hangs: true, ..Tools::default() };
    let asked = Arc::clone(&tools.asked);
    let os = Os::new(Box::new(tools));
    assert_eq!(os.stage_image("quay.io/os@sha256:2").unwrap_err().kind, ErrorKind::TimedOut);
    os.drop_staged().unwrap();
    let asked = asked.lock().unwrap();
    assert_eq!(asked[asked.len() - 2..], ["rpm-ostree cancel", "rpm-ostree cleanup -p"]);
}

const STAGED: &str = r#"{"image":{"image":{"image":"quay.io/os:2"}}}"#;

#[test]
fn an_image_that_bootc_has_staged_is_dropped_and_what_is_not_staged_is_left_alone() {
    let dropped = |staged: &[&'static str]| {
        let tools = Tools { has: vec!["bootc"], staged: Mutex::new(staged.to_vec()), ..Tools::default() };
        let asked = Arc::clone(&tools.asked);
        let dropped = Os::new(Box::new(tools)).drop_staged();
        let undeploy = format!("{OUTSIDE}ostree admin undeploy 0");
        let count = asked.lock().unwrap().iter().filter(|line| **line == undeploy).count();
        (dropped.map_err(|error| error.to_string()), count)
    };
    assert_eq!(dropped(&["null"]), (Ok(()), 0));
    assert_eq!(dropped(&[STAGED, "null"]), (Ok(()), 1));
    let (stays, asked) = dropped(&[STAGED, STAGED]);
    let stays = stays.unwrap_err();
    assert_eq!(asked, 1);
    assert!(stays.contains("image quay.io/os:2 stays staged and the next boot takes it"), "{stays}");
}

#[test]
fn an_image_that_cannot_be_dropped_says_why() {
    let tools = Tools {
        has: vec!["bootc"],
        staged: Mutex::new(vec![STAGED, STAGED]),
        fails: BTreeMap::from([("systemd-run", "exit status: 1: this is no ostree")]),
        ..Tools::default()
    };
    let error = Os::new(Box::new(tools)).drop_staged().unwrap_err().to_string();
    assert!(error.contains("this is no ostree"), "{error}");
    let unread = Tools { has: vec!["bootc"], fails: BTreeMap::from([("bootc", "no")]), ..Tools::default() };
    assert!(Os::new(Box::new(unread)).drop_staged().is_err(), "what is staged is not known");
}

#[test]
fn a_bootc_that_takes_too_long_is_stopped_with_its_unit() {
    let tools = Tools { has: vec!["bootc"], hangs: true, ..Tools::default() };
    let asked = Arc::clone(&tools.asked);
    assert_eq!(Os::new(Box::new(tools)).stage_image("quay.io/os@sha256:2").unwrap_err().kind, ErrorKind::TimedOut);
    let asked = asked.lock().unwrap();
    assert_eq!(
        asked[asked.len() - 2..],
        [format!("{OUTSIDE}bootc switch quay.io/os@sha256:2"), "systemctl stop machinistd-outside.service".to_owned()]
    );
}

#[test]
fn the_package_of_a_file_is_asked_of_whichever_package_manager_there_is() {
    let issue = HostPath::parse("/etc/issue").unwrap();
    let of = |program, question, answer| {
        let tools = Tools { has: vec![program], answers: BTreeMap::from([(question, answer)]), ..Tools::default() };
        Os::new(Box::new(tools)).package_of(&issue).unwrap()
    };
    let dpkg = of("dpkg-query", "dpkg-query --search /etc/issue", "base-files: /etc/issue\n");
    assert_eq!(dpkg.as_deref(), Some("base-files"));
    assert_eq!(of("dpkg-query", "dpkg-query --search", "base-files: /etc/issue.net\n"), None);
    let rpm = of("rpm", "rpm -qf --queryformat %{NAME}\\n /etc/issue", "fedora-release-common\n");
    assert_eq!(rpm.as_deref(), Some("fedora-release-common"));
    assert_eq!(of("sh", "", ""), None);
}

#[test]
fn a_package_manager_that_fails_has_not_said_that_a_file_is_nobodys() {
    let issue = HostPath::parse("/etc/issue").unwrap();
    let of = |program, says| {
        let tools = Tools { has: vec![program], fails: BTreeMap::from([(program, says)]), ..Tools::default() };
        Os::new(Box::new(tools)).package_of(&issue)
    };
    let nobodys = "exit status: 1: file /etc/issue is not owned by any package";
    assert_eq!(of("rpm", nobodys).unwrap(), None);
    let unknown = "exit status: 1: dpkg-query: no path found matching pattern /etc/issue";
    assert_eq!(of("dpkg-query", unknown).unwrap(), None);
    let locked = "exit status: 1: error: cannot open Packages database file /etc/issue is not owned by any package";
    assert!(of("rpm", locked).unwrap_err().detail.contains("Packages database"));
    assert!(of("dpkg-query", "exit status: 2: dpkg-query: error: files list is corrupt").is_err());
    assert!(of("rpm", "signal: 9 (SIGKILL): ").is_err());
}

#[test]
fn the_package_managers_of_this_machine_say_that_a_new_file_is_nobodys() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = HostPath::parse(file.path().to_str().unwrap()).unwrap();
    assert_eq!(Os::new(Box::new(Programs::new(std::path::Path::new("/")))).package_of(&path).unwrap(), None);
}

#[test]
fn what_went_wrong_at_the_last_shutdown_and_what_others_have_installed_is_known() {
    let status = r#"{"deployments":[{"booted":true,"requested-packages":["usbguard","htop"],"base-removals":[{"name":"vim"}]}]}"#;
    let log = "Finalizing staged deployment\nerror: opendir(ostree/boot.1.1): No such file\nerror: second\n";
    let answers = BTreeMap::from([("rpm-ostree status", status), ("journalctl -b -1", log)]);
    let os = Os::new(Box::new(Tools { has: vec!["rpm-ostree"], answers, ..Tools::default() }));
    assert_eq!(os.finalize_failure().unwrap(), "error: opendir(ostree/boot.1.1): No such file");
    assert_eq!(os.foreign_packages(&["usbguard"]), 2, "htop was added and vim removed");
    let without = Os::new(Box::new(Tools::default()));
    assert_eq!((without.finalize_failure(), without.foreign_packages(&[])), (None, 0));
}

#[test]
fn only_installed_packages_are_named() {
    let tools =
        Tools { has: vec!["rpm"], answers: BTreeMap::from([("rpm -qa", "bash\nusbguard\n")]), ..Tools::default() };
    let os = Os::new(Box::new(tools));
    assert_eq!(os.installed(&["usbguard", "sysstat"]).unwrap(), ["usbguard"]);
}

#[test]
fn labels_are_restored_by_the_hosts_own_tool_where_selinux_is_on() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["/etc/a", "/etc/b"].map(|path| HostPath::parse(path).unwrap());
    let machine = |has: Vec<&'static str>| {
        let answers = BTreeMap::from([("restorecon -inv", "Would relabel /etc/b from u:r:t:s0 to u:r:etc_t:s0\n")]);
        let tools = Tools { has, answers, ..Tools::default() };
        let asked = Arc::clone(&tools.asked);
        (Machine::open(folder.path()).unwrap().with_tools(Box::new(tools)), asked)
    };
    let (off, asked) = machine(vec!["restorecon"]);
    off.system().restore_labels(&paths).unwrap();
    assert!(off.system().mislabelled(&paths).is_empty());
    assert!(asked.lock().unwrap().is_empty(), "SELinux is off");

    std::fs::create_dir_all(folder.path().join("sys/fs/selinux")).unwrap();
    std::fs::write(folder.path().join("sys/fs/selinux/enforce"), "1").unwrap();
    let (on, asked) = machine(vec!["restorecon"]);
    on.system().restore_labels(&paths).unwrap();
    assert_eq!(on.system().mislabelled(&paths), [paths[1].clone()]);
    assert_eq!(*asked.lock().unwrap(), ["restorecon -i -- /etc/a /etc/b", "restorecon -inv -- /etc/a /etc/b"]);
    let (without, asked) = machine(vec![]);
    without.system().restore_labels(&paths).unwrap();
    assert!(asked.lock().unwrap().is_empty());
}

#[test]
fn arguments_that_stay_are_left_alone_unless_their_order_changes() {
    let (os, asked) = rpm_ostree();
    let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    os.change_kernel_arguments(&list(&["a", "b", "c"]), &list(&["a", "c", "d"])).unwrap();
    os.change_kernel_arguments(&list(&["console=tty0", "console=ttyS0"]), &list(&["console=ttyS0", "console=tty0"]))
        .unwrap();
    assert_eq!(
        asked.lock().unwrap()[..],
        [
            "rpm-ostree kargs --delete-if-present=b --append-if-missing=a --append-if-missing=c --append-if-missing=d",
            "rpm-ostree kargs --delete-if-present=console=tty0 --delete-if-present=console=ttyS0",
            "rpm-ostree kargs --append-if-missing=console=ttyS0 --append-if-missing=console=tty0",
        ]
    );
}

#[test]
fn a_program_that_does_not_end_is_stopped_and_one_that_says_much_is_heard_out() {
    let programs = Programs::new(std::path::Path::new("/")).with_limit(Duration::from_millis(300));
    let error = programs.run("sleep", &["600".to_owned()]).unwrap_err().to_string();
    assert_eq!(error, "cannot run sleep: it did not end within 0.3 seconds and was stopped");
    let programs = Programs::new(std::path::Path::new("/"));
    let much = programs.run("head", &["-c".to_owned(), "1000000".to_owned(), "/dev/zero".to_owned()]).unwrap();
    assert_eq!(much.len(), 1_000_000);
}

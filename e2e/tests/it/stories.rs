//! The pages of `docs/guide` as users would follow them: each command of a page is run, and its answer compared.
//!
//! Commands stand on lines that begin with `$ `, their answers below. In an answer `…` stands for anything within a line,
//! and alone on a line for any lines; spaces count once. A command that only looks is run again until it answers as the
//! page says, as a reader would: with each change of the cluster.

mod page;
mod runbooks;
mod taking_over;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use page::{Block, matches, read};
use runbooks::Runbooks;
use testkit::binaries::binary;
use testkit::process::Process;
use testkit::{Changes, ControlPlane, Kind, control_plane, needs, wait_until};

/// Pages in the order in which they are read; each leaves the fleet as it found it.
const PAGES: [&str; 14] = [
    "scale-machines.md",
    "change-the-kubelet.md",
    "kubelet-config.md",
    "image-mirrors.md",
    "pinned-images.md",
    "adopt-hosts.md",
    "an-infra-pool.md",
    "an-old-manifest.md",
    "pace-and-order.md",
    "when-somebody-interferes.md",
    "the-operating-system.md",
    "rotate-ssh-keys.md",
    "when-a-drain-does-not-finish.md",
    "when-a-change-fails.md",
];

/// Pages of runbooks, in which each heading that begins with a number is a runbook; each page leaves the fleet as it found it.
const RUNBOOKS: [&str; 2] = ["from-openshift-machines.md", "from-openshift.md"];

/// How long a look may take to show what the page says.
const PATIENCE: Duration = Duration::from_secs(90);

/// A cluster on which pages are followed: a running `machinist up`, or what a story has made otherwise.
pub(crate) struct Fleet {
    /// What the fleet runs on, as the table of runbooks calls it.
    place: &'static str,
    process: Option<Process>,
    changes: Changes,
    kubeconfig: PathBuf,
    folder: tempfile::TempDir,
    /// Last, so that it outlives the fleet.
    _other: Option<ControlPlane>,
}

impl Fleet {
    async fn start(kind: Kind) -> Option<Self> {
        Self::start_in(tempfile::tempdir().unwrap(), kind, &[]).await
    }

    async fn start_in(folder: tempfile::TempDir, kind: Kind, more: &[&str]) -> Option<Self> {
        if !needs::kubectl() {
            return None;
        }
        let data = folder.path().join("fleet");
        let mut arguments = vec!["up".to_owned(), "--data".to_owned(), data.display().to_string()];
        arguments.extend(more.iter().map(ToString::to_string));
        let mut kubeconfig = data.join("kubeconfig");
        let other = match kind {
            Kind::Embedded => None,
            Kind::Real => Some(control_plane(Kind::Real).await?),
        };
        if let Some(other) = &other {
            // `up` installs the kinds itself, without those of 2019, whose names kubectl would prefer.
            kubeconfig = other.kubeconfig();
            arguments.extend(["--kubeconfig".to_owned(), kubeconfig.display().to_string()]);
        }
        let log = folder.path().join("up.log");
        let _ = std::fs::remove_file(&log);
        let mut process = Process::start(&binary("machinist"), &arguments, &[], &log).unwrap();
        wait_until("the fleet to be up", || {
            assert!(process.is_running(), "machinist up ended: {}", process.output());
            let is_up = process.output().contains("Your fleet is up");
            async move { is_up.then_some(()) }
        })
        .await;
        let changes = Changes::of(&kubeconfig);
        let place = match kind {
            Kind::Embedded if more.contains(&"--systemd") => "systemd nodes",
            Kind::Embedded => "machinist up",
            Kind::Real => "kube-apiserver",
        };
        Some(Self { place, process: Some(process), changes, kubeconfig, folder, _other: other })
    }

    /// A real API server, and nothing that runs pods.
    async fn bare() -> Option<Self> {
        if !needs::kubectl() {
            return None;
        }
        let other = control_plane(Kind::Real).await?;
        let (kubeconfig, folder) = (other.kubeconfig(), tempfile::tempdir().unwrap());
        let changes = Changes::of(&kubeconfig);
        Some(Self { place: "kube-apiserver", process: None, changes, kubeconfig, folder, _other: Some(other) })
    }

    /// A cluster of somebody else's making, whose pods run. Readers of its pages have a clone of this repository before them.
    pub(crate) fn of_kubelets(kubeconfig: &Path) -> Self {
        Self {
            place: "real kubelets",
            process: None,
            changes: Changes::of(kubeconfig),
            kubeconfig: kubeconfig.to_owned(),
            folder: tempfile::tempdir().unwrap(),
            _other: None,
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("fleet")
    }

    /// Exit code and everything printed.
    fn run(&self, command: &str, folder: &Path) -> (i32, String) {
        let programs = binary("machinist").parent().unwrap().to_owned();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(folder).stdin(Stdio::null());
        shell.env("PATH", path).env("KUBECONFIG", &self.kubeconfig).env("DIR", self.data()).env("NO_COLOR", "1");
        let output = shell.output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.code().unwrap_or(-1), text.concat())
    }

    pub(crate) fn follow(&self, name: &str) {
        self.follow_text(name, &text_of(name));
    }

    fn follow_text(&self, name: &str, text: &str) {
        if !is_chosen(name) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let blocks = read(name, text);
        let mut runbooks = Runbooks::of(&blocks, self.place);
        if self.place == "real kubelets" {
            clone_into(folder.path());
        }
        for block in blocks {
            match block {
                Block::Runbook(number) => runbooks.begin(number.as_ref()),
                Block::File { name, text } => std::fs::write(folder.path().join(name), text).unwrap(),
                Block::Command { only_up: true, .. } if self.place == "kube-apiserver" => {}
                Block::Command { line, command, expected, only_up: _ } => {
                    println!("{name}:{line}: $ {command}");
                    self.check(&format!("{name}:{line}"), &command, &expected, folder.path());
                }
            }
        }
        runbooks.begin(None);
    }

    fn check(&self, place: &str, command: &str, expected: &[String], folder: &Path) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (code, seen) = self.run(command, folder);
            if matches(expected, &seen) {
                return;
            }
            let again = page::only_looks(command) && self.changes.wait(deadline);
            let expected = expected.join("\n");
            assert!(
                again,
                "{place}: $ {command}\nended with {code} and printed\n{seen}\ninstead of\n{expected}\n{}",
                self.log()
            );
        }
    }

    /// Another controller has looked after the fleet; it is taken over as the page says, and handed back. The last story of a fleet.
    fn take_over(&self) {
        if !is_chosen("taking-over.md") {
            return;
        }
        self.follow_text("the controller before taking-over.md", &taking_over::theirs());
        let before = self.disturbances();
        let text = text_of("taking-over.md");
        let (taken_over, goes_on) = text.split_once("From here on").unwrap();
        self.follow_text("taking-over.md", taken_over);
        assert_eq!(self.disturbances(), before, "a node was moved by the change of controllers");
        self.follow_text("the rest of taking-over.md", goes_on);
        self.follow_text("the controller after taking-over.md", &taking_over::theirs_again());
    }

    /// How often the log tells that a node is taken out of service.
    fn disturbances(&self) -> usize {
        let log = std::fs::read_to_string(self.data().join("machinist.log")).unwrap();
        log.lines().filter(|line| line.contains("initiating cordon") || line.contains("initiating reboot")).count()
    }

    /// The end of the fleet's log, for the message of a failing test.
    fn log(&self) -> String {
        let text = std::fs::read_to_string(self.data().join("machinist.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

/// What a page uses of a clone after `make build`. kustomize reads nothing through links that lead out of its folder.
fn clone_into(folder: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut copy = Command::new("cp");
    copy.arg("-r").args(["--parents", "kustomization.yaml", "config", "manifests/install"]);
    assert!(copy.arg(folder).current_dir(root).status().unwrap().success());
    std::fs::create_dir(folder.join("bin")).unwrap();
    for link in operate::programs::LINKS.iter().filter(|link| link.program == operate::programs::MACHINIST) {
        std::os::unix::fs::symlink(binary("machinist"), folder.join("bin").join(link.name)).unwrap();
    }
}

/// Whether a page is to be followed: all of them, or the one that the variable `MACHINIST_PAGE` names, for whoever writes it.
fn is_chosen(name: &str) -> bool {
    std::env::var("MACHINIST_PAGE").map_or(true, |page| name.contains(&page))
}

/// The text of a page.
fn text_of(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What our own components log, as on a cluster where they are pods. A real API server would ask the nodes' kubelets.
const LOGS: &str = r#"
```console
$ kubectl logs -n openshift-machine-config-operator -l k8s-app=machine-config-controller --tail=-1
…
… INFO controllers::render: rendered pool="worker" …
…
$ kubectl logs -n openshift-machine-config-operator -l k8s-app=machine-config-daemon --tail=-1
…
… INFO node{name=worker-1}: …
…
```
"#;

/// Who asks for what is not there, or may not ask, is told so in the words of the real server.
const REFUSED: &str = r#"
```console
$ kubectl get pods -n openshift-machine-config-operator -l k8s-app=machine-config-daemon --field-selector spec.nodeName=worker-2 -o name > pod
$ kubectl exec -n openshift-machine-config-operator $(cat pod) -c nobody -- ls
Error from server (BadRequest): container nobody is not valid for pod machine-config-daemon-…
$ kubectl exec -n openshift-machine-config-operator machine-config-daemon-none -- ls
Error from server (NotFound): pods "machine-config-daemon-none" not found
$ kubectl create clusterrole reader --verb=get --resource=pods,pods/exec
clusterrole.rbac.authorization.k8s.io/reader created
$ kubectl create clusterrolebinding reader --clusterrole=reader --user=jane
clusterrolebinding.rbac.authorization.k8s.io/reader created
$ kubectl exec --as=jane -n openshift-machine-config-operator $(cat pod) -- ls
Error from server (Forbidden): pods "machine-config-daemon-…" is forbidden: User "jane" cannot create resource "pods/exec" in API group "" in the namespace "openshift-machine-config-operator"
$ kubectl create clusterrole runner --verb=create --resource=pods/exec
clusterrole.rbac.authorization.k8s.io/runner created
$ kubectl create clusterrolebinding runner --clusterrole=runner --user=jane
clusterrolebinding.rbac.authorization.k8s.io/runner created
$ kubectl exec --as=jane -n openshift-machine-config-operator $(cat pod) -- echo allowed
allowed
$ kubectl delete clusterrole,clusterrolebinding reader runner -o name
…
$ kubectl exec -n openshift-machine-config-operator $(cat pod) -- nothing-of-this-name
…
command terminated with exit code 127
$ KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false kubectl exec -n openshift-machine-config-operator $(cat pod) -- ls
Error from server (NotImplemented): streams are spoken over WebSocket only: use kubectl 1.31 or newer, without …
$ kubectl port-forward -n openshift-machine-config-operator $(cat pod) 8080:80
error: error upgrading connection: node worker-2 runs no containers: …
$ script -qec "kubectl exec -it -n openshift-machine-config-operator $(cat pod) -- sh -c 'stty cols 93; stty size; test -t 0 && tty; exit 7'" /dev/null
…0 93…
…/dev/pts/…
command terminated with exit code 7…
$ touch $DIR/nodes/worker-2/off
$ kubectl exec -n openshift-machine-config-operator $(cat pod) -- ls
Error from server (NotImplemented): node worker-2 is off or starting: …
$ rm $DIR/nodes/worker-2/off
```
"#;

#[tokio::test]
async fn every_page_of_the_guide_holds_on_the_embedded_api() {
    let Some(fleet) = Fleet::start(Kind::Embedded).await else { return };
    PAGES.iter().for_each(|page| fleet.follow(page));
    fleet.follow_text("logs", LOGS);
    fleet.follow("commands-on-a-node.md");
    fleet.follow_text("commands that cannot be run", REFUSED);
    fleet.take_over();
}

#[tokio::test]
async fn every_page_of_the_guide_holds_on_a_real_api_server() {
    let Some(fleet) = Fleet::start(Kind::Real).await else { return };
    PAGES.iter().for_each(|page| fleet.follow(page));
    fleet.take_over();
}

#[tokio::test]
async fn every_runbook_holds_on_the_embedded_api() {
    let Some(fleet) = Fleet::start(Kind::Embedded).await else { return };
    RUNBOOKS.iter().for_each(|page| fleet.follow(page));
}

#[tokio::test]
async fn every_runbook_holds_on_a_real_api_server() {
    let Some(fleet) = Fleet::start(Kind::Real).await else { return };
    RUNBOOKS.iter().for_each(|page| fleet.follow(page));
}

/// Leaves nothing mounted, also when the story fails.
struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = containers::unmount_beneath(&self.0);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Nobody waits for two minutes here: what tells how long the daemon has been silent is taken away.
const HANGS: &str = r#"
```yaml hang.yaml
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: 50-worker-hang, labels: {machineconfiguration.openshift.io/role: worker}}
spec: {config: {ignition: {version: 3.5.0}, storage: {files: [{path: /etc/hang, contents: {source: "data:,x"}}]}}}
```
```console
$ nsenter -t $(cat $DIR/nodes/worker-1/leader) -m -u -i -p -C sh -c 'kill -STOP $(systemctl show -P MainPID machinistd)'
$ kubectl get node worker-1 -o jsonpath='{.metadata.annotations.machineconfiguration\.openshift\.io/desiredConfig}' > before
$ kubectl apply -f hang.yaml
machineconfig.machineconfiguration.openshift.io/50-worker-hang created
$ kubectl get node worker-1 -o jsonpath='{.metadata.annotations.machineconfiguration\.openshift\.io/desiredConfig}' | diff -q before -
Files before and - differ
$ kubectl -n openshift-machine-config-operator scale deploy/machine-config-operator --replicas=0
deployment.apps/machine-config-operator scaled
$ kubectl -n openshift-machine-config-operator scale deploy/machine-config-controller --replicas=0
deployment.apps/machine-config-controller scaled
$ cat $DIR/machinist.log
…
… stopped component="machine-config-controller"
…
$ kubectl patch poolledger worker --type=merge -p '{"spec":{"claims":[]}}'
poolledger.machinist.dev/worker patched
$ kubectl patch node worker-1 --type=merge -p '{"metadata":{"managedFields":[{}]}}'
node/worker-1 patched
$ kubectl delete machineconfignode worker-1
machineconfignode.machineconfiguration.openshift.io "worker-1" deleted…
$ machinist doctor
…
problem node/worker-1 (nobody-is-working)
node worker-1 shall reach rendered-worker-… from rendered-worker-…, and nobody is working on it: its daemon does not answer
…
--fix would restart pod machine-config-daemon-…, the daemon of node worker-1
…
$ machinist doctor --fix --yes
…
repaired: pod machine-config-daemon-… is made anew
3 found and repaired; 2 pools and 2 nodes looked at.
$ kubectl get mcp worker -o jsonpath='{.status.updatedMachineCount} {.status.configuration.source[*].name}'
1 00-worker 50-worker-hang
$ machinist doctor
Nothing is wrong: 2 pools and 2 nodes looked at.
```
"#;

#[tokio::test]
async fn the_page_about_real_nodes_holds_and_they_outlive_a_kill_but_not_their_end() {
    if !needs::nspawn() || !needs::root() {
        return;
    }
    let more = ["--systemd", "--nodes", "1"];
    let folder = tempfile::tempdir().unwrap();
    let _unmount = Unmount(folder.path().to_owned());
    let Some(fleet) = Fleet::start_in(folder, Kind::Embedded, &more).await else { return };
    fleet.follow("real-nodes.md");
    fleet.follow_text("a daemon that hangs", HANGS);
    let data = fleet.data();
    let mounts = || {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.lines().filter(|line| line.contains(data.to_str().unwrap())).count()
    };
    let leader = || std::fs::read_to_string(data.join("nodes/worker-1/leader")).unwrap();
    // A process that has ended has no root, also while nobody has collected it.
    let is_gone = |leader: &str| !Path::new("/proc").join(leader).join("root").exists();
    let before = leader();
    assert!(!before.is_empty() && !is_gone(&before));
    assert_eq!(mounts(), 2);
    std::fs::write(data.join("nodes/worker-1/root/etc/by-hand"), "").unwrap();

    // As root may do to it: nothing is told, nothing is cleaned up.
    let Fleet { process, folder, .. } = fleet;
    process.unwrap().kill();
    wait_until("the containers to end with their keeper", || async { is_gone(&before).then_some(()) }).await;
    assert_eq!(mounts(), 2, "nobody has unmounted them");

    // The same once more, and the container's keeper is killed too: then it is left running, until the next `up`.
    let fleet = Fleet::start_in(folder, Kind::Embedded, &more).await.unwrap();
    let before = leader();
    let status = std::fs::read_to_string(Path::new("/proc").join(&before).join("status")).unwrap();
    let keeper = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim();
    assert!(Command::new("kill").args(["-s", "KILL", keeper]).status().unwrap().success());
    let Fleet { process, folder, .. } = fleet;
    process.unwrap().kill();

    let mut fleet = Fleet::start_in(folder, Kind::Embedded, &more).await.unwrap();
    assert!(is_gone(&before), "it is ended before its root is mounted anew");
    assert!(data.join("nodes/worker-1/root/etc/by-hand").exists(), "the node's disk is the same");
    assert_eq!(mounts(), 2, "what was left is unmounted, and mounted anew");
    let before = leader();
    let process = fleet.process.as_mut().unwrap();
    process.signal("INT");
    assert!(process.wait().unwrap().success(), "{}", process.output());
    assert!(is_gone(&before));
    assert_eq!(mounts(), 0);
    assert!(data.join("nodes/worker-1/upper/etc/by-hand").exists(), "what the node wrote is kept");
}

#[test]
fn what_stands_in_the_way_of_real_nodes_is_said_in_one_sentence() {
    if !needs::nspawn() || !needs::root() {
        return;
    }
    let (folder, machinist) = (tempfile::tempdir().unwrap(), binary("machinist"));
    let check = |command: &mut Command, wanted: &[&str]| {
        let output = command.current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(wanted.iter().all(|words| said.contains(words)), "{wanted:?}: {said}");
        assert!(!folder.path().join("fleet").exists(), "nothing was begun");
    };
    let up = |program: &Path| {
        let mut command = Command::new(program);
        command.args(["up", "--systemd", "--data", "fleet"]);
        command
    };
    // Somebody who is not root has to reach the binary and the folder.
    let copy = Path::new("/tmp").join(format!("machinist-{}", std::process::id()));
    std::fs::copy(&machinist, &copy).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&copy);
    check(command.args(["up", "--systemd"]), &["need root", "Without --systemd"]);
    std::fs::remove_file(&copy).unwrap();

    check(up(&machinist).env("PATH", folder.path()), &["debootstrap is not on the PATH", "install debootstrap"]);
    check(up(&machinist).args(["--machinistd", "/nowhere"]), &["--machinistd /nowhere: there is no such file"]);
    // A system that was not made yet, and a network that is not there.
    let mut offline = up(&machinist);
    offline.env("XDG_CACHE_HOME", folder.path()).envs([("http_proxy", "http://127.0.0.1:1")]);
    check(&mut offline, &["debootstrap could not make", "reaches the network"]);
}

#[tokio::test]
async fn the_page_about_installing_holds_on_a_real_api_server() {
    let Some(cluster) = Fleet::bare().await else { return };
    cluster.follow("install.md");
}

//! Help beyond flags: examples below each verb's `--help`, shell completions and manual pages, all from one definition.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use clap_complete::Shell;

use crate::output;

pub(crate) const UP: &str = "Examples:
  machinist up                                  one control-plane node and three workers, gone at the end
  machinist up --data ~/fleet                   kept across restarts
  machinist up --nodes 10000 --in-memory        a large fleet, without files
  machinist up --legacy-kinds                   with the kinds of 2019 too
  machinist up --kubeconfig test.kubeconfig     the same fleet against another test API";

pub(crate) const STATUS: &str = "Examples:
  machinist status                              pools and nodes, once
  machinist status --watch                      live
  machinist status --pool worker -o json        for programs";

pub(crate) const WHY: &str = "Examples:
  machinist why pool worker
  machinist why node worker-1 -o json
  machinist why machine worker-a-x7k2p
  machinist why machineset worker-a";

pub(crate) const EXPORT: &str = "Examples:
  machinist export machine control-plane-0 > new.yaml
  sed -i s/control-plane-0/control-plane-3/ new.yaml && kubectl create -f new.yaml";

pub(crate) const PLAN: &str = "Examples:
  machinist plan -f change.yaml                 what would happen, node by node
  machinist plan --delete 50-worker-motd        what the deletion of a MachineConfig would do
  machinist plan -f change.yaml --save plan.json && machinist apply plan.json
  machinist plan                                what is still to do now

Exit codes: 0 nothing to do, 3 something to do, 1 failed, 2 wrong use.";

pub(crate) const APPLY: &str = "Examples:
  machinist plan -f change.yaml --save plan.json
  machinist apply plan.json                     exactly that, or nothing";

pub(crate) const BLAME: &str = "Examples:
  machinist blame worker-1 /etc/chrony.conf
  machinist blame worker-1 kubelet.service
  machinist blame worker-1 /etc/kubernetes/kubelet.conf maxPods
  machinist blame worker-1 core                 a user and their keys";

pub(crate) const DOCTOR: &str = "Examples:
  machinist doctor                              look, and say what to do
  machinist doctor --fix                        offer each repair that loses nothing

Exit codes: 0 nothing wrong or all repaired, 3 something found, 1 failed, 2 wrong use.";

pub(crate) const ROLLBACK: &str = "Examples:
  machinist rollback worker                     back to the last config that every node had
  machinist rollback worker --to rendered-worker-0a1b2c --yes";

pub(crate) const PAUSE: &str = "Examples:
  machinist pause worker --for 2h --reason 'a test of the new kernel'
  machinist pause worker                        until somebody resumes it";

pub(crate) const RESUME: &str = "Examples:
  machinist resume worker";

pub(crate) const ADOPT: &str = "Examples:
  machinist adopt                               what would change if all were ours; changes nothing
                                                (where nothing is another's: what hosts have in common)
  machinist adopt 99-worker-generated-registries --yes

Exit codes: 0 nothing to adopt or done, 3 something to adopt, 1 failed, 2 wrong use.";

pub(crate) const DIFF: &str = "Examples:
  machinist diff old.yaml new.yaml              two files or folders, offline
  machinist diff rendered-worker-a rendered-worker-b
  machinist diff new.yaml node/worker-1         a config and what a node runs

Exit codes: 0 the same, 3 different, 1 failed, 2 wrong use.";

pub(crate) const RENDER: &str = "Examples:
  machinist render -f manifests/                what each pool's nodes would get
  machinist render -f manifests/ --why /etc/motd";

#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

#[derive(Args)]
pub(crate) struct Man {
    /// Write a page for each verb into this folder; absent, print the main page
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints the completions of a shell.
pub(crate) fn completions(arguments: &Completions, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "machinist", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints or writes manual pages.
pub(crate) fn man(arguments: &Man, command: clap::Command) -> anyhow::Result<ExitCode> {
    match &arguments.dir {
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            clap_mangen::generate_to(command, folder)
                .with_context(|| format!("cannot write into {}", folder.display()))?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            output::print(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

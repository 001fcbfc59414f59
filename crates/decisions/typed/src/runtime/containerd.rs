//! The same for containerd, as drop-ins that its main file imports.
//!
//! containerd has an equivalent for two of the fields only. The others are listed, so that nobody believes them to be in
//! force.

use super::Settings;
use crate::fragment::File;

/// Folder that containerd's main file imports drop-ins from.
pub const FOLDER: &str = "/etc/containerd/conf.d";

/// Drop-ins, and what they cannot express.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropins {
    pub files: Vec<File>,
    pub unsupported: Vec<String>,
}

/// The drop-ins for a containerd of this major version, of which the second has a new form of configuration.
pub fn dropins(settings: &Settings, major: u64) -> Dropins {
    let (version, plugin) =
        if major >= 2 { (3, "io.containerd.cri.v1.runtime") } else { (2, "io.containerd.grpc.v1.cri") };
    let file = |field: &str, content: String| {
        File::new(format!("{FOLDER}/01-ctrcfg-{field}.toml"), format!("version = {version}\n\n{content}"))
    };
    let mut dropins = Dropins::default();
    if let Some(level) = &settings.log_level {
        dropins.files.push(file("logLevel", format!("[debug]\n  level = {level:?}\n")));
    }
    if let Some(runtime) = &settings.default_runtime {
        // crun speaks runc's command line, so the same shim drives it.
        let table = format!("plugins.{plugin:?}.containerd");
        let content = format!(
            "[{table}]\n  default_runtime_name = {runtime:?}\n\n[{table}.runtimes.{runtime}]\n  runtime_type = \"io.containerd.runc.v2\"\n\n[{table}.runtimes.{runtime}.options]\n  BinaryName = {runtime:?}\n  SystemdCgroup = true\n"
        );
        dropins.files.push(file("defaultRuntime", content));
    }
    let hint = |field: &str| match field {
        "pidsLimit" => "; set podPidsLimit in a KubeletConfig",
        "logSizeMax" => "; set containerLogMaxSize in a KubeletConfig",
        _ => "",
    };
    let others = settings.fields().into_iter().filter(|field| !matches!(*field, "logLevel" | "defaultRuntime"));
    dropins.unsupported =
        others.map(|field| format!("containerd has no equivalent of {field}{}", hint(field))).collect();
    dropins
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn containerd_gets_what_it_knows_and_the_rest_is_told() {
        let settings = Settings {
            log_level: Some("debug".into()),
            default_runtime: Some("crun".into()),
            pids_limit: Some(4096),
            overlay_size: crate::Quantity::parse("10Gi"),
            ..Settings::default()
        };
        let shown = |major| {
            let dropins = dropins(&settings, major);
            let files: String =
                dropins.files.iter().map(|file| format!("# {}\n{}\n", file.path, file.contents)).collect();
            format!("{files}{}", dropins.unsupported.join("\n"))
        };
        expect![[r##"
            # /etc/containerd/conf.d/01-ctrcfg-logLevel.toml
            version = 3

            [debug]
              level = "debug"

            # /etc/containerd/conf.d/01-ctrcfg-defaultRuntime.toml
            version = 3

            [plugins."io.containerd.cri.v1.runtime".containerd]
              default_runtime_name = "crun"

            [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.crun]
              runtime_type = "io.containerd.runc.v2"

            [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.crun.options]
              BinaryName = "crun"
              SystemdCgroup = true

            containerd has no equivalent of pidsLimit; set podPidsLimit in a KubeletConfig
            containerd has no equivalent of overlaySize"##]]
        .assert_eq(&shown(2));
        assert!(shown(1).contains("io.containerd.grpc.v1.cri"));
    }
}

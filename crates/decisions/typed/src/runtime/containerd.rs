//! The same for containerd, as drop-ins that its main file imports.
//!
//! containerd has an equivalent for two of the fields only. The others are listed, so that nobody believes them to be in
//! force. Of a plugin's settings it takes those of the drop-in and forgets those of the main file, so the drop-in repeats them.

use toml::{Table, Value};

use super::Settings;
use super::main_file::{self, MainFile};
use crate::fragment::File;

/// Folder that containerd's main file imports drop-ins from.
pub const FOLDER: &str = "/etc/containerd/conf.d";

/// Drop-ins, and what they cannot express.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropins {
    pub files: Vec<File>,
    pub unsupported: Vec<String>,
}

/// The drop-ins for a containerd of this major version, of which the second has a new form of configuration, and reads the
/// older one too: they have the form of the main file.
pub fn dropins(settings: &Settings, major: u64, main: &MainFile) -> Dropins {
    let version = main.content().map(|main| main.get("version").and_then(Value::as_integer).unwrap_or(1));
    let is_new = version.map_or(major >= 2, |version| version >= 3);
    let (version, plugin) = if is_new { (3, "io.containerd.cri.v1.runtime") } else { (2, "io.containerd.grpc.v1.cri") };
    let file = |field: &str, content: &str| {
        File::new(format!("{FOLDER}/01-ctrcfg-{field}.toml"), format!("version = {version}\n\n{content}"))
    };
    let mut dropins = Dropins::default();
    if let Some(level) = &settings.log_level {
        dropins.files.push(file("logLevel", &format!("[debug]\n  level = {level:?}\n")));
    }
    match (&settings.default_runtime, main.content()) {
        (None, _) => {}
        (Some(runtime), Some(main)) => {
            let section = with_default(section(main, plugin), runtime);
            let plugins = Table::from_iter([(plugin.to_owned(), Value::Table(section))]);
            let content = Table::from_iter([("plugins".to_owned(), Value::Table(plugins))]);
            dropins.files.push(file("defaultRuntime", &content.to_string()));
        }
        (Some(runtime), None) => {
            // What was accepted before that was known stays as it is, byte by byte.
            let table = format!("plugins.{plugin:?}.containerd");
            let content = format!(
                "[{table}]\n  default_runtime_name = {runtime:?}\n\n[{table}.runtimes.{runtime}]\n  runtime_type = \"io.containerd.runc.v2\"\n\n[{table}.runtimes.{runtime}.options]\n  BinaryName = {runtime:?}\n  SystemdCgroup = true\n"
            );
            dropins.files.push(file("defaultRuntime", &content));
            dropins.unsupported.push(format!(
                "defaultRuntime needs a MachineConfig with {}, because containerd forgets what that file says of its runtimes when a drop-in names one",
                main_file::PATH
            ));
        }
    }
    let hint = |field: &str| match field {
        "pidsLimit" => "; set podPidsLimit in a KubeletConfig",
        "logSizeMax" => "; set containerLogMaxSize in a KubeletConfig",
        _ => "",
    };
    let others = settings.fields().into_iter().filter(|field| !matches!(*field, "logLevel" | "defaultRuntime"));
    let others = others.map(|field| format!("containerd has no equivalent of {field}{}", hint(field)));
    dropins.unsupported.extend(others);
    dropins
}

/// What the main file says of a plugin.
fn section(main: &Table, plugin: &str) -> Table {
    let section = main.get("plugins").and_then(|plugins| plugins.get(plugin)).and_then(Value::as_table);
    section.cloned().unwrap_or_default()
}

fn with_default(mut section: Table, runtime: &str) -> Table {
    let containerd = members(&mut section, "containerd");
    containerd.insert("default_runtime_name".to_owned(), Value::String(runtime.to_owned()));
    let runtimes = members(containerd, "runtimes");
    if !runtimes.contains_key(runtime) {
        let known = members(runtimes, runtime);
        // crun speaks runc's command line, so the same shim drives it.
        known.insert("runtime_type".to_owned(), Value::String("io.containerd.runc.v2".to_owned()));
        let options = members(known, "options");
        options.insert("BinaryName".to_owned(), Value::String(runtime.to_owned()));
        options.insert("SystemdCgroup".to_owned(), Value::Boolean(true));
    }
    section
}

/// The members of a table in a table; anything else there is replaced by an empty one.
fn members<'t>(table: &'t mut Table, key: &str) -> &'t mut Table {
    let value = table.entry(key).or_insert_with(|| Value::Table(Table::new()));
    if !value.is_table() {
        *value = Value::Table(Table::new());
    }
    value.as_table_mut().expect("it was just made a table")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const NEW: &str = "version = 3\n[plugins.\"io.containerd.cri.v1.runtime\"]\nenable_selinux = true\n";
    const OLD: &str = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = \"/x\"\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.crun]\nruntime_type = \"mine\"\n";

    fn shown(settings: &Settings, major: u64, main: &MainFile) -> String {
        let dropins = dropins(settings, major, main);
        let files: String = dropins.files.iter().map(|file| format!("# {}\n{}\n", file.path, file.contents)).collect();
        format!("{files}{}", dropins.unsupported.join("\n"))
    }

    #[test]
    fn containerd_gets_what_it_knows_and_the_rest_is_told() {
        let settings = Settings {
            log_level: Some("debug".into()),
            default_runtime: Some("crun".into()),
            pids_limit: Some(4096),
            overlay_size: crate::Quantity::parse("10Gi"),
            ..Settings::default()
        };
        expect![[r##"
            # /etc/containerd/conf.d/01-ctrcfg-logLevel.toml
            version = 3

            [debug]
              level = "debug"

            # /etc/containerd/conf.d/01-ctrcfg-defaultRuntime.toml
            version = 3

            [plugins."io.containerd.cri.v1.runtime"]
            enable_selinux = true

            [plugins."io.containerd.cri.v1.runtime".containerd]
            default_runtime_name = "crun"

            [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.crun]
            runtime_type = "io.containerd.runc.v2"

            [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.crun.options]
            BinaryName = "crun"
            SystemdCgroup = true

            containerd has no equivalent of pidsLimit; set podPidsLimit in a KubeletConfig
            containerd has no equivalent of overlaySize"##]]
        .assert_eq(&shown(&settings, 2, &MainFile::parse("a", NEW)));
        expect![[r##"
            # /etc/containerd/conf.d/01-ctrcfg-logLevel.toml
            version = 2

            [debug]
              level = "debug"

            # /etc/containerd/conf.d/01-ctrcfg-defaultRuntime.toml
            version = 2

            [plugins."io.containerd.grpc.v1.cri".containerd]
            default_runtime_name = "crun"

            [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun]
            runtime_type = "mine"

            [plugins."io.containerd.grpc.v1.cri".registry]
            config_path = "/x"

            containerd has no equivalent of pidsLimit; set podPidsLimit in a KubeletConfig
            containerd has no equivalent of overlaySize"##]]
        .assert_eq(&shown(&settings, 2, &MainFile::parse("a", OLD)));
        expect![[r##"
            # /etc/containerd/conf.d/01-ctrcfg-logLevel.toml
            version = 2

            [debug]
              level = "debug"

            # /etc/containerd/conf.d/01-ctrcfg-defaultRuntime.toml
            version = 2

            [plugins."io.containerd.grpc.v1.cri".containerd]
              default_runtime_name = "crun"

            [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun]
              runtime_type = "io.containerd.runc.v2"

            [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.crun.options]
              BinaryName = "crun"
              SystemdCgroup = true

            defaultRuntime needs a MachineConfig with /etc/containerd/config.toml, because containerd forgets what that file says of its runtimes when a drop-in names one
            containerd has no equivalent of pidsLimit; set podPidsLimit in a KubeletConfig
            containerd has no equivalent of overlaySize"##]].assert_eq(&shown(&settings, 1, &MainFile::default()));
    }
}

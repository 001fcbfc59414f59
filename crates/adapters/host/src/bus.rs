//! systemd and logind over D-Bus, in plain blocking calls.
//!
//! Only the few methods the daemon needs, called by name: a generated interface would be many times larger than all of this.
//! The bus is the host's, found beneath the root, so it works from a container too.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use change::host::{Activity, Error, ErrorKind};
use zbus::zvariant::DynamicType;
use zbus::{Connection, Message, OwnedFd, OwnedObjectPath, OwnedVariant};

const SYSTEMD: &str = "org.freedesktop.systemd1";
const MANAGER: &str = "/org/freedesktop/systemd1";
const LOGIND: &str = "org.freedesktop.login1";
const LOGIND_PATH: &str = "/org/freedesktop/login1";
const LOGIND_MANAGER: &str = "org.freedesktop.login1.Manager";

/// A method call that is not answered means that the manager itself is stuck.
const CALL: Duration = Duration::from_secs(60);
/// Services may take their time to stop and start; this is above systemd's own default of 90 seconds each.
const JOB: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(50);

pub(crate) struct Bus {
    socket: PathBuf,
    session: Mutex<Option<Session>>,
}

struct Session {
    /// Always there until the session ends.
    runtime: Option<tokio::runtime::Runtime>,
    connection: Connection,
}

impl Drop for Session {
    /// Whoever drops the host may be inside another runtime, which must not wait for this one.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Bus {
    pub(crate) fn new(root: &Path) -> Self {
        Self { socket: root.join("run/dbus/system_bus_socket"), session: Mutex::default() }
    }

    pub(crate) fn enablement(&self, unit: &str) -> Result<String, Error> {
        match self.manager("GetUnitFileState", unit, &(unit,)) {
            Ok(answer) => self.read(&answer, unit),
            Err(Refusal::Method(name, _)) if is_missing(&name) => Ok("not-found".into()),
            Err(refusal) => Err(refusal.into_error("ask about", unit)),
        }
    }

    pub(crate) fn activity(&self, unit: &str) -> Result<Activity, Error> {
        let answer =
            self.manager("LoadUnit", unit, &(unit,)).map_err(|refusal| refusal.into_error("ask about", unit))?;
        let path: OwnedObjectPath = self.read(&answer, unit)?;
        let interface = "org.freedesktop.systemd1.Unit";
        let active: String = self.property(&path, interface, "ActiveState", unit)?;
        let invocation: Vec<u8> = self.property(&path, interface, "InvocationID", unit)?;
        let needs_reload: bool = self.property(&path, interface, "NeedDaemonReload", unit)?;
        let restarts = match unit.ends_with(".service") {
            true => self.property(&path, "org.freedesktop.systemd1.Service", "NRestarts", unit).unwrap_or(0),
            false => 0,
        };
        let invocation = invocation.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Activity { active, invocation, needs_reload, restarts })
    }

    pub(crate) fn enable(&self, units: &[String]) -> Result<(), Error> {
        let answer = self.manager("EnableUnitFiles", "", &(units, false, true));
        answer.map(drop).map_err(|refusal| refusal.into_error("enable", &units.join(" ")))
    }

    pub(crate) fn disable(&self, units: &[String]) -> Result<(), Error> {
        match self.manager("DisableUnitFiles", "", &(units, false)) {
            Ok(_) => Ok(()),
            Err(Refusal::Method(name, _)) if is_missing(&name) => Ok(()),
            Err(refusal) => Err(refusal.into_error("disable", &units.join(" "))),
        }
    }

    pub(crate) fn preset(&self, unit: &str) -> Result<(), Error> {
        let answer = self.manager("PresetUnitFiles", unit, &([unit], false, true));
        answer.map(drop).map_err(|refusal| refusal.into_error("preset", unit))
    }

    pub(crate) fn daemon_reload(&self) -> Result<(), Error> {
        self.manager("Reload", "", &()).map(drop).map_err(|refusal| refusal.into_error("reload", "systemd"))
    }

    /// Runs a job and waits for its end. `verb` is for messages, `method` for systemd.
    pub(crate) fn job(&self, verb: &'static str, method: &'static str, unit: &str) -> Result<(), Error> {
        let answer = match self.manager(method, unit, &(unit, "replace")) {
            Ok(answer) => answer,
            Err(Refusal::Method(name, _)) if verb == "stop" && is_missing(&name) => return Ok(()),
            Err(refusal) => return Err(refusal.into_error(verb, unit)),
        };
        let job: OwnedObjectPath = self.read(&answer, unit)?;
        let end = Instant::now() + JOB;
        while self.property::<String>(&job, "org.freedesktop.systemd1.Job", "State", unit).is_ok() {
            if Instant::now() > end {
                return Err(Error::new(ErrorKind::Failed, verb, unit, "it took longer than five minutes"));
            }
            std::thread::sleep(POLL);
        }
        if verb != "stop" && self.activity(unit)?.has_failed() {
            let detail = format!("the unit has failed; `journalctl -u {unit}` says why");
            return Err(Error::new(ErrorKind::Failed, verb, unit, detail));
        }
        Ok(())
    }

    /// When the service manager was started by the kernel, in microseconds. It stays when the manager is reloaded.
    pub(crate) fn started(&self) -> Result<u64, Error> {
        let manager = OwnedObjectPath::try_from(MANAGER)
            .map_err(|error| Error::new(ErrorKind::Failed, "ask about", "systemd", error.to_string()))?;
        self.property(&manager, "org.freedesktop.systemd1.Manager", "UserspaceTimestamp", "systemd")
    }

    /// A lock of logind; the shutdown is free again when it is dropped.
    pub(crate) fn hold_off_shutdown(&self, why: &str) -> Result<OwnedFd, Error> {
        let wish = ("shutdown:sleep", "machinistd", why, "block");
        let answer = self.call(LOGIND, LOGIND_PATH, LOGIND_MANAGER, "Inhibit", &wish);
        let answer = answer.map_err(|refusal| refusal.into_error("hold off", "shutdown"))?;
        self.read(&answer, "logind")
    }

    /// logind, so that inhibitors are respected; where there is none, systemd itself.
    ///
    /// logind before systemd 257 lets root's reboot pass every lock, so the locks are asked for first. One that is taken
    /// in the moment between is respected by newer ones only.
    pub(crate) fn reboot(&self) -> Result<(), Error> {
        if let Some(lock) = self.locks().iter().find_map(Lock::holds_off_shutdown) {
            return Err(Error::new(ErrorKind::Failed, "reboot", "this host", lock));
        }
        match self.call(LOGIND, LOGIND_PATH, LOGIND_MANAGER, "Reboot", &(false,)) {
            Ok(_) => Ok(()),
            // Somebody else's work must not be cut off; whoever asked tries again.
            Err(Refusal::Method(name, detail)) if format!("{name}{detail}").to_lowercase().contains("inhibit") => {
                Err(Refusal::Method(name, detail).into_error("reboot", "this host"))
            }
            Err(_) => {
                let answer = self.manager("StartUnit", "reboot.target", &("reboot.target", "replace-irreversibly"));
                answer.map(drop).map_err(|refusal| refusal.into_error("reboot", "this host"))
            }
        }
    }

    /// What holds off shutdowns and other things. None where there is no logind to ask.
    fn locks(&self) -> Vec<Lock> {
        let answer = self.call(LOGIND, LOGIND_PATH, LOGIND_MANAGER, "ListInhibitors", &());
        answer.ok().and_then(|answer| self.read(&answer, "logind").ok()).unwrap_or_default()
    }

    fn manager<B>(&self, method: &'static str, _unit: &str, body: &B) -> Result<Message, Refusal>
    where
        B: serde::Serialize + DynamicType,
    {
        self.call(SYSTEMD, MANAGER, "org.freedesktop.systemd1.Manager", method, body)
    }

    fn property<T>(&self, path: &OwnedObjectPath, interface: &str, name: &str, unit: &str) -> Result<T, Error>
    where
        T: TryFrom<OwnedVariant>,
    {
        let answer = self
            .call(SYSTEMD, path.as_str(), "org.freedesktop.DBus.Properties", "Get", &(interface, name))
            .map_err(|refusal| refusal.into_error("ask about", unit))?;
        let value: OwnedVariant = self.read(&answer, unit)?;
        T::try_from(value)
            .map_err(|_| Error::new(ErrorKind::Failed, "ask about", unit, format!("{name} has an odd type")))
    }

    fn read<T>(&self, message: &Message, unit: &str) -> Result<T, Error>
    where
        T: for<'a> serde::Deserialize<'a> + zbus::zvariant::Type,
    {
        let body = message.body().deserialize::<T>();
        body.map_err(|error| Error::new(ErrorKind::Failed, "ask about", unit, error.to_string()))
    }

    fn call<B>(&self, service: &str, path: &str, interface: &str, method: &str, body: &B) -> Result<Message, Refusal>
    where
        B: serde::Serialize + DynamicType,
    {
        let mut session = self.session.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if session.is_none() {
            *session = Some(self.connect()?);
        }
        let Some(Session { runtime: Some(runtime), connection }) = session.as_ref() else {
            return Err(Refusal::Bus("no connection".into()));
        };
        let answer = runtime.block_on(async {
            let call = connection.call_method(Some(service), path, Some(interface), method, body);
            tokio::time::timeout(CALL, call).await
        });
        match answer {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(zbus::Error::MethodError(name, detail, _))) => {
                Err(Refusal::Method(name.to_string(), detail.unwrap_or_default()))
            }
            Ok(Err(error)) => {
                // Errors of the bus's own kinds come with their name in front.
                let text = error.to_string();
                match text.split_once(": ") {
                    Some((name, detail)) if name.starts_with("org.freedesktop.") && !name.contains(' ') => {
                        Err(Refusal::Method(name.to_owned(), detail.to_owned()))
                    }
                    // The next call connects anew: the bus may have been restarted.
                    _ => {
                        *session = None;
                        Err(Refusal::Bus(text))
                    }
                }
            }
            Err(_) => {
                *session = None;
                Err(Refusal::Bus("no answer within a minute".into()))
            }
        }
    }

    fn connect(&self) -> Result<Session, Refusal> {
        let broken = |error: String| Refusal::Bus(format!("{}: {error}", self.socket.display()));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| broken(error.to_string()))?;
        let address = format!("unix:path={}", self.socket.display());
        let connection = runtime
            .block_on(async { zbus::connection::Builder::address(address.as_str()).build().await })
            .map_err(|error| broken(error.to_string()))?;
        Ok(Session { runtime: Some(runtime), connection })
    }
}

/// A lock as logind lists it.
#[derive(Clone, Debug, serde::Deserialize, zbus::zvariant::Type)]
struct Lock {
    /// What is held off, with colons in between: `shutdown:sleep`.
    what: String,
    who: String,
    why: String,
    /// `block`, `delay` or, which root may pass, `block-weak`.
    mode: String,
    _user: u32,
    _process: u32,
}

impl Lock {
    /// Who holds off a shutdown and why, if this lock does.
    fn holds_off_shutdown(&self) -> Option<String> {
        let holds = self.mode == "block" && self.what.split(':').any(|what| what == "shutdown");
        holds.then(|| format!("\"{}\" holds off shutdowns: {} (`systemd-inhibit --list`)", self.who, self.why))
    }
}

enum Refusal {
    /// The service answered with an error of this name.
    Method(String, String),
    Bus(String),
}

impl Refusal {
    fn into_error(self, action: &'static str, subject: &str) -> Error {
        match self {
            Refusal::Method(name, detail) => {
                let kind = if is_missing(&name) { ErrorKind::Unsupported } else { ErrorKind::Failed };
                Error::new(kind, action, subject, if detail.is_empty() { name } else { detail })
            }
            Refusal::Bus(detail) => Error::new(ErrorKind::Failed, action, subject, format!("D-Bus: {detail}")),
        }
    }
}

fn is_missing(error: &str) -> bool {
    ["NoSuchUnit", "FileNotFound", "NoSuchFile", "UnitNotFound", "LoadFailed"].iter().any(|name| error.ends_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_block_of_shutdowns_holds_off_a_reboot() {
        let lock = |what: &str, mode: &str| {
            let [what, who, why, mode] = [what, "backup", "a backup is running", mode].map(str::to_owned);
            Lock { what, who, why, mode, _user: 0, _process: 1 }.holds_off_shutdown()
        };
        let expected = "\"backup\" holds off shutdowns: a backup is running (`systemd-inhibit --list`)";
        assert_eq!(lock("sleep:shutdown", "block").as_deref(), Some(expected));
        for (what, mode) in [("shutdown", "delay"), ("shutdown", "block-weak"), ("sleep:idle", "block")] {
            assert_eq!(lock(what, mode), None, "{what} {mode}");
        }
    }
}

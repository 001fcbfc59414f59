//! Writes the SSH keys of a user to where this host's sshd reads them.
//!
//! The keys have a file of their own, `.ssh/authorized_keys.d/ignition`, which image-based systems read. sshd of Debian,
//! Ubuntu and RHEL reads `.ssh/authorized_keys` instead, where people and cloud-init write too: there the keys stand between
//! two lines of ours, and everything else in the file stays as it is. No link that the user made is followed.

use change::host::{Attributes, Error, ErrorKind, Files, HostPath};

use crate::accounts::Account;
use crate::sshd::{self, Sshd};

const BEGIN: &str = "# BEGIN machinist: keys of this node's MachineConfig, written again when changed here";
const END: &str = "# END machinist";
/// The program of image-based systems that reads every file in `.ssh/authorized_keys.d`.
const READS_OWN_FILE: &str = "ssh-key-dir";

/// Where the keys of one user go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The file that holds nothing but our keys.
    pub own: HostPath,
    /// The file that others write too, where sshd does not read ours.
    pub shared: Option<HostPath>,
}

impl Places {
    pub fn paths(&self) -> impl Iterator<Item = &HostPath> {
        [&self.own].into_iter().chain(&self.shared)
    }
}

/// # Errors
/// When sshd reads no file at all, or its configuration cannot be read.
pub fn places(files: &dyn Files, user: &str, account: &Account) -> Result<Places, Error> {
    let own = place(&format!("{}/.ssh/authorized_keys.d/ignition", account.home))?;
    let Some(Sshd { key_files, key_command }) = sshd::read(files, user)? else {
        return Ok(Places { own, shared: None });
    };
    let read: Vec<HostPath> = key_files.iter().filter_map(|pattern| expand(pattern, user, account)).collect();
    if read.contains(&own) || key_command.as_deref().is_some_and(|command| command.contains(READS_OWN_FILE)) {
        return Ok(Places { own, shared: None });
    }
    match read.into_iter().next() {
        Some(shared) => Ok(Places { own, shared: Some(shared) }),
        None => {
            let detail = format!(
                "sshd reads no file for them (AuthorizedKeysFile is \"{}\"); let it read .ssh/authorized_keys.d/ignition",
                key_files.join(" ")
            );
            Err(Error::new(ErrorKind::Unsupported, "set SSH keys of", user, detail))
        }
    }
}

/// Writes the keys; none where sshd would not read them in any file.
pub fn set(files: &dyn Files, user: &str, account: &Account, keys: &[String]) -> Result<(), Error> {
    let places = match places(files, user, account) {
        // Nothing to take away where nothing is read.
        Err(error) if error.kind == ErrorKind::Unsupported && keys.is_empty() => return Ok(()),
        other => other?,
    };
    let owner = |mode| Attributes { mode, user: account.user, group: account.group };
    let folders: Vec<HostPath> =
        [places.own.parent().and_then(|folder| folder.parent()), places.own.parent()].into_iter().flatten().collect();
    for folder in folders {
        files.make_folder(&folder, &owner(0o700))?;
    }
    files.put(&places.own, text(keys).as_bytes(), &owner(0o600))?;
    match places.shared {
        Some(shared) => set_shared(files, &shared, account, keys),
        None => Ok(()),
    }
}

fn set_shared(files: &dyn Files, path: &HostPath, account: &Account, keys: &[String]) -> Result<(), Error> {
    let present = files.read(path)?;
    let wanted = with_block(present.as_deref().unwrap_or_default(), keys);
    if wanted.is_empty() {
        return files.remove(path);
    }
    if present.as_deref() == Some(&wanted[..]) {
        return Ok(());
    }
    // Whoever wrote the rest keeps it: a file of another's that got here by a hard link is not given away.
    let attributes = match files.look(path)? {
        Some(entry) => Attributes { mode: entry.mode, user: entry.user, group: entry.group },
        None if path.is_beneath(&account.home) => Attributes { mode: 0o600, user: account.user, group: account.group },
        // sshd reads it as the user.
        None => Attributes::root(0o644),
    };
    files.put(path, &wanted, &attributes)
}

/// Whether sshd finds exactly these keys of ours.
pub fn are_set(files: &dyn Files, user: &str, account: &Account, keys: &[String]) -> bool {
    let Ok(places) = places(files, user, account) else { return keys.is_empty() };
    let read = |path: &HostPath| files.read(path).ok().flatten().unwrap_or_default();
    let shared = places.shared.as_ref().map(read);
    read(&places.own) == text(keys).as_bytes() && shared.is_none_or(|present| with_block(&present, keys) == present)
}

pub fn text(keys: &[String]) -> String {
    keys.iter().map(|key| format!("{}\n", key.trim())).collect()
}

/// The file with our lines in the place of those it had, or at its end; without any where there are no keys.
fn with_block(present: &[u8], keys: &[String]) -> Vec<u8> {
    let block = match keys {
        [] => String::new(),
        keys => format!("{BEGIN}\n{}{END}\n", text(keys)),
    };
    let (mut wanted, mut is_ours, mut is_placed) = (Vec::with_capacity(present.len()), false, false);
    for line in present.split_inclusive(|byte| *byte == b'\n') {
        let words = line.trim_ascii_end();
        if words.starts_with(b"# BEGIN machinist") {
            is_ours = true;
            if !is_placed {
                wanted.extend_from_slice(block.as_bytes());
                is_placed = true;
            }
        }
        if !is_ours {
            wanted.extend_from_slice(line);
        }
        is_ours &= words != END.as_bytes();
    }
    if !is_placed && !block.is_empty() {
        if wanted.last().is_some_and(|last| *last != b'\n') {
            wanted.push(b'\n');
        }
        wanted.extend_from_slice(block.as_bytes());
    }
    wanted
}

/// The path that a pattern of `AuthorizedKeysFile` means for one user.
fn expand(pattern: &str, user: &str, account: &Account) -> Option<HostPath> {
    let mut path = String::new();
    let mut rest = pattern.chars();
    while let Some(next) = rest.next() {
        match (next, next == '%') {
            (_, true) => match rest.next()? {
                '%' => path.push('%'),
                'h' => path.push_str(&account.home),
                'u' => path.push_str(user),
                'U' => path.push_str(&account.user.to_string()),
                _ => return None,
            },
            (plain, false) => path.push(plain),
        }
    }
    let path = if path.starts_with('/') { path } else { format!("{}/{path}", account.home) };
    HostPath::parse(&path).ok().filter(|_| pattern != "none")
}

fn place(path: &str) -> Result<HostPath, Error> {
    HostPath::parse(path).map_err(|error| Error::new(ErrorKind::Refused, "write", path, error.problem))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use change::host::Host;
    use host::memory::Memory;

    const KEYS: &str = "/home/core/.ssh/authorized_keys";

    fn core() -> Account {
        Account { user: 1000, group: 1000, home: "/home/core".to_owned() }
    }

    fn sshd(says: &str) -> Memory {
        let host = Memory::new();
        put(&host, "/etc/ssh/sshd_config", says, Attributes::root(0o600));
        host
    }

    fn put(host: &Memory, path: &str, text: &str, attributes: Attributes) {
        host.files().put(&place(path).unwrap(), text.as_bytes(), &attributes).unwrap();
    }

    fn read(host: &Memory, path: &str) -> Option<String> {
        host.files().read(&place(path).unwrap()).unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
    }

    fn set_to(host: &Memory, keys: &[&str]) -> Result<(), Error> {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        set(host.files(), "core", &core(), &keys)?;
        assert!(are_set(host.files(), "core", &core(), &keys));
        Ok(())
    }

    #[test]
    fn stock_sshd_finds_the_keys_among_those_of_others() {
        let host = sshd("UsePAM yes\n");
        let theirs = Attributes { mode: 0o640, user: 1000, group: 7 };
        put(&host, KEYS, "ssh-rsa cloud-init\nssh-rsa laptop", theirs);
        set_to(&host, &["ssh-ed25519 A a ", "ssh-ed25519 B b"]).unwrap();
        let lines = format!("ssh-rsa cloud-init\nssh-rsa laptop\n{BEGIN}\nssh-ed25519 A a\nssh-ed25519 B b\n{END}\n");
        assert_eq!(read(&host, KEYS).unwrap(), lines);
        let entry = host.files().look(&place(KEYS).unwrap()).unwrap().unwrap();
        assert_eq!((entry.mode, entry.user, entry.group), (0o640, 1000, 7), "the file stays whose it was");
        put(&host, KEYS, &(lines + "ssh-rsa later\n"), theirs);
        set_to(&host, &["ssh-ed25519 C c"]).unwrap();
        let changed = format!("ssh-rsa cloud-init\nssh-rsa laptop\n{BEGIN}\nssh-ed25519 C c\n{END}\nssh-rsa later\n");
        assert_eq!(read(&host, KEYS).unwrap(), changed);
        set_to(&host, &[]).unwrap();
        assert_eq!(read(&host, KEYS).unwrap(), "ssh-rsa cloud-init\nssh-rsa laptop\nssh-rsa later\n");
    }

    #[test]
    fn a_file_that_held_only_our_keys_goes_with_them() {
        let host = sshd("");
        set_to(&host, &["ssh-ed25519 A"]).unwrap();
        let entry = host.files().look(&place(KEYS).unwrap()).unwrap().unwrap();
        assert_eq!((entry.mode, entry.user, entry.group), (0o600, 1000, 1000));
        set_to(&host, &[]).unwrap();
        assert_eq!(read(&host, KEYS), None);
    }

    #[test]
    fn an_sshd_that_reads_our_own_file_is_left_alone() {
        let own = "/home/core/.ssh/authorized_keys.d/ignition";
        let says = [
            "AuthorizedKeysFile .ssh/authorized_keys %h/.ssh/authorized_keys.d/ignition\n",
            "AuthorizedKeysCommand /usr/libexec/ssh-key-dir %u\n",
        ];
        for host in says.map(sshd).into_iter().chain([Memory::new()]) {
            set_to(&host, &["ssh-ed25519 A"]).unwrap();
            assert_eq!((read(&host, own).as_deref(), read(&host, KEYS)), (Some("ssh-ed25519 A\n"), None));
        }
    }

    #[test]
    fn keys_of_a_user_may_lie_outside_of_the_home() {
        let host = sshd("AuthorizedKeysFile /etc/ssh/keys/%u .ssh/authorized_keys\n");
        set_to(&host, &["ssh-ed25519 A"]).unwrap();
        let entry = host.files().look(&place("/etc/ssh/keys/core").unwrap()).unwrap().unwrap();
        assert_eq!((entry.mode, entry.user), (0o644, 0));
    }

    #[test]
    fn keys_that_nobody_would_read_are_refused_with_a_sentence() {
        let host = sshd("AuthorizedKeysFile none\n");
        let error = set_to(&host, &["ssh-ed25519 A"]).unwrap_err().to_string();
        assert!(error.contains("SSH keys of core") && error.contains("AuthorizedKeysFile is \"none\""), "{error}");
        set_to(&host, &[]).unwrap();
    }

    #[test]
    fn a_key_that_was_taken_out_of_our_lines_is_missed() {
        let host = sshd("");
        set_to(&host, &["ssh-ed25519 A", "ssh-ed25519 B"]).unwrap();
        let text = read(&host, KEYS).unwrap().replace("ssh-ed25519 B\n", "");
        put(&host, KEYS, &text, Attributes { mode: 0o600, user: 1000, group: 1000 });
        let keys = ["ssh-ed25519 A", "ssh-ed25519 B"].map(str::to_owned);
        assert!(!are_set(host.files(), "core", &core(), &keys));
    }
}

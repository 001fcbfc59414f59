//! Writes the SSH keys of a user to where this host's sshd reads them.
//!
//! The keys have a file of their own, `.ssh/authorized_keys.d/ignition`, which image-based systems read. sshd of Debian,
//! Ubuntu and RHEL reads `.ssh/authorized_keys` instead, where people and cloud-init write too: there the keys stand between
//! two lines of ours, and everything else in the file stays as it is. Our lines are in no other file that sshd reads, so that a
//! key that a config took away lets nobody in. No link that the user made is followed.

use change::host::{Attributes, EntryKind, Error, ErrorKind, Files, HostPath};

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
    /// Files that may still have our lines from when sshd read other ones: the rest of what it reads now, and its default.
    others: Vec<HostPath>,
}

impl Places {
    pub fn paths(&self) -> impl Iterator<Item = &HostPath> {
        [&self.own].into_iter().chain(&self.shared)
    }
}

/// # Errors
/// When sshd reads no file at all, or its configuration cannot be read.
pub fn places(files: &dyn Files, user: &str, account: &Account) -> Result<Places, Error> {
    let (own, default) = (own_place(account)?, default_place(account)?);
    let Some(Sshd { key_files, key_command }) = sshd::read(files, user)? else {
        return Ok(Places { own, shared: None, others: vec![default] });
    };
    let read: Vec<HostPath> = key_files.iter().filter_map(|pattern| expand(pattern, user, account)).collect();
    let reads_own = read.contains(&own) || key_command.is_some_and(|command| command.contains(READS_OWN_FILE));
    let shared = if reads_own { None } else { read.first().cloned() };
    if !reads_own && shared.is_none() {
        let detail = format!(
            "sshd reads no file for them (AuthorizedKeysFile is \"{}\"); let it read .ssh/authorized_keys.d/ignition",
            key_files.join(" ")
        );
        return Err(Error::new(ErrorKind::Unsupported, "set SSH keys of", user, detail));
    }
    let mut others: Vec<HostPath> = Vec::new();
    for path in read.into_iter().chain([default]) {
        if path != own && Some(&path) != shared.as_ref() && !others.contains(&path) {
            others.push(path);
        }
    }
    Ok(Places { own, shared, others })
}

/// Writes the keys; none where sshd would not read them in any file. Keys of ours in any other file are taken away.
pub fn set(files: &dyn Files, user: &str, account: &Account, keys: &[String]) -> Result<(), Error> {
    let (places, is_unread) = match places(files, user, account) {
        // Nothing is read, but what stays would count again as soon as sshd reads it.
        Err(error) if error.kind == ErrorKind::Unsupported && keys.is_empty() => {
            (Places { own: own_place(account)?, shared: None, others: vec![default_place(account)?] }, true)
        }
        other => (other?, false),
    };
    let known = known(&found(files, &places.own)?, keys);
    for path in &places.others {
        if has_block(&found(files, path)?) {
            set_shared(files, path, account, &[], &known)?;
        }
    }
    if is_unread && files.look(&places.own)?.is_none() {
        return Ok(());
    }
    let owner = |mode| Attributes { mode, user: account.user, group: account.group };
    let folders: Vec<HostPath> =
        [places.own.parent().and_then(|folder| folder.parent()), places.own.parent()].into_iter().flatten().collect();
    for folder in folders {
        files.make_folder(&folder, &owner(0o700))?;
    }
    if let Some(shared) = &places.shared {
        set_shared(files, shared, account, keys, &known)?;
    }
    // Last: until all is done it tells which keys were ours.
    files.put(&places.own, text(keys).as_bytes(), &owner(0o600))
}

fn set_shared(
    files: &dyn Files,
    path: &HostPath,
    account: &Account,
    keys: &[String],
    known: &[String],
) -> Result<(), Error> {
    let present = files.read(path)?;
    let wanted = with_block(present.as_deref().unwrap_or_default(), keys, known);
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

/// A file in which our lines may be. Links are not followed, so there is nothing of ours behind them.
fn found(files: &dyn Files, path: &HostPath) -> Result<Vec<u8>, Error> {
    let entry = match files.look(path) {
        Err(error) if error.kind == ErrorKind::Refused => return Ok(Vec::new()),
        other => other?,
    };
    if entry.is_none_or(|entry| entry.kind != EntryKind::File) {
        return Ok(Vec::new());
    }
    Ok(files.read(path)?.unwrap_or_default())
}

/// Whether our own file has exactly these keys, and no file that sshd reads has other keys of ours.
///
/// A file that sshd reads and that has no lines of ours at all is no fault: daemons before this one wrote only the own file,
/// and a node does not fail because a newer one runs. The next change of the keys writes them there.
pub fn are_set(files: &dyn Files, user: &str, account: &Account, keys: &[String]) -> bool {
    let read = |path: &HostPath| files.read(path).ok().flatten().unwrap_or_default();
    let is_own = |path: &HostPath| read(path) == text(keys).as_bytes();
    let Ok(places) = places(files, user, account) else {
        return keys.is_empty() || own_place(account).is_ok_and(|own| is_own(&own));
    };
    let known = known(&read(&places.own), keys);
    let is_right = |present: Vec<u8>| !has_block(&present) || with_block(&present, keys, &known) == present;
    is_own(&places.own)
        && places.shared.iter().all(|path| is_right(read(path)))
        && places.others.iter().all(|path| is_right(found(files, path).unwrap_or_default()))
}

pub fn text(keys: &[String]) -> String {
    keys.iter().map(|key| format!("{}\n", key.trim())).collect()
}

/// The keys that are ours by what our own file has and what it shall have.
fn known(own: &[u8], keys: &[String]) -> Vec<String> {
    let before = String::from_utf8_lossy(own).into_owned() + "\n" + &text(keys);
    before.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

fn is_begin(line: &[u8]) -> bool {
    line.starts_with(b"# BEGIN machinist")
}

fn is_end(line: &[u8]) -> bool {
    line.trim_ascii_end() == END.as_bytes()
}

fn has_block(present: &[u8]) -> bool {
    present.split(|byte| *byte == b'\n').any(is_begin)
}

/// The file with our lines in the place of those it had, or at its end; without any where there are no keys.
fn with_block(present: &[u8], keys: &[String], known: &[String]) -> Vec<u8> {
    let block = match keys {
        [] => String::new(),
        keys => format!("{BEGIN}\n{}{END}\n", text(keys)),
    };
    let lines: Vec<&[u8]> = present.split_inclusive(|byte| *byte == b'\n').collect();
    let (mut wanted, mut is_placed, mut rest) = (Vec::with_capacity(present.len()), false, &lines[..]);
    while let Some((line, after)) = rest.split_first() {
        if is_begin(line) {
            if !is_placed {
                wanted.extend_from_slice(block.as_bytes());
                is_placed = true;
            }
            rest = &after[length_of_ours(after, known)..];
        } else {
            wanted.extend_from_slice(line);
            rest = after;
        }
    }
    if !is_placed && !block.is_empty() {
        if wanted.last().is_some_and(|last| *last != b'\n') {
            wanted.push(b'\n');
        }
        wanted.extend_from_slice(block.as_bytes());
    }
    wanted
}

/// How many lines after our first one are ours: up to our last one. Where somebody took that away, only the keys that are
/// known to be ours, because all that follows is other people's.
fn length_of_ours(after: &[&[u8]], known: &[String]) -> usize {
    let next = after.iter().position(|line| is_begin(line)).unwrap_or(after.len());
    let end = after[..next].iter().position(|line| is_end(line));
    let is_known = |line: &&&[u8]| known.iter().any(|key| key.as_bytes() == line.trim_ascii());
    end.map_or_else(|| after.iter().take_while(is_known).count(), |end| end + 1)
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

fn own_place(account: &Account) -> Result<HostPath, Error> {
    place(&format!("{}/.ssh/authorized_keys.d/ignition", account.home))
}

/// What sshd reads where nobody tells it otherwise.
fn default_place(account: &Account) -> Result<HostPath, Error> {
    place(&format!("{}/.ssh/authorized_keys", account.home))
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
    fn a_node_on_which_only_our_own_file_was_written_is_as_it_shall_be() {
        let own = "/home/core/.ssh/authorized_keys.d/ignition";
        let core_owns = Attributes { mode: 0o600, user: 1000, group: 1000 };
        let keys = ["ssh-ed25519 A".to_owned()];
        for says in ["", "AuthorizedKeysFile none\n", "AuthorizedKeysFile /etc/ssh/keys/%u\n"] {
            let host = sshd(says);
            put(&host, KEYS, "ssh-rsa laptop\n", core_owns);
            put(&host, own, "ssh-ed25519 A\n", core_owns);
            assert!(are_set(host.files(), "core", &core(), &keys), "{says}");
            put(&host, own, "ssh-ed25519 B\n", core_owns);
            assert!(!are_set(host.files(), "core", &core(), &keys), "{says}");
        }
        let host = sshd("");
        put(&host, own, "ssh-ed25519 A\n", core_owns);
        set_to(&host, &["ssh-ed25519 A"]).unwrap();
        assert_eq!(read(&host, KEYS).unwrap(), format!("{BEGIN}\nssh-ed25519 A\n{END}\n"));
    }

    #[test]
    fn a_key_that_is_taken_away_is_in_no_file_whatever_sshd_read_before() {
        let both = "AuthorizedKeysFile .ssh/authorized_keys .ssh/authorized_keys.d/ignition\n";
        let elsewhere = "AuthorizedKeysFile /etc/ssh/keys/%u .ssh/authorized_keys\n";
        for (now, keys) in
            [(both, &["B"][..]), (both, &[]), (elsewhere, &["B"]), (elsewhere, &[]), ("AuthorizedKeysFile none\n", &[])]
        {
            let host = sshd("");
            put(&host, KEYS, "ssh-rsa laptop\n", Attributes { mode: 0o600, user: 1000, group: 1000 });
            set_to(&host, &["A", "B"]).unwrap();
            put(&host, "/etc/ssh/sshd_config", now, Attributes::root(0o600));
            let own = "/home/core/.ssh/authorized_keys.d/ignition";
            let wanted: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            put(&host, own, &text(&wanted), Attributes::root(0o600));
            let is_missed = !are_set(host.files(), "core", &core(), &wanted);
            assert!(is_missed || now.contains("none"), "{now}: keys of ours are left where sshd reads them");
            set_to(&host, keys).unwrap();
            assert_eq!(read(&host, KEYS).unwrap(), "ssh-rsa laptop\n", "{now}");
            assert!(!read(&host, own).unwrap().contains('A'), "{now}");
        }
    }

    #[test]
    fn a_link_in_another_place_is_neither_read_nor_in_the_way() {
        let host = sshd("AuthorizedKeysFile .ssh/authorized_keys.d/ignition .ssh/authorized_keys\n");
        host.files().link(&place(KEYS).unwrap(), "/etc/shadow").unwrap();
        set_to(&host, &["ssh-ed25519 A"]).unwrap();
        assert!(host.files().look(&place(KEYS).unwrap()).unwrap().is_some());
    }

    #[test]
    fn without_our_last_line_only_keys_of_ours_are_taken_for_ours() {
        let host = sshd("");
        set_to(&host, &["A", "C"]).unwrap();
        let core_owns = Attributes { mode: 0o600, user: 1000, group: 1000 };
        put(&host, KEYS, &format!("{BEGIN}\nA\nC\nssh-rsa laptop\nA\n"), core_owns);
        assert!(!are_set(host.files(), "core", &core(), &["A", "C"].map(str::to_owned)));
        set_to(&host, &["B"]).unwrap();
        assert_eq!(read(&host, KEYS).unwrap(), format!("{BEGIN}\nB\n{END}\nssh-rsa laptop\nA\n"));
        put(&host, KEYS, &format!("{BEGIN}\nssh-rsa laptop\n{BEGIN}\nB\n{END}\nssh-rsa phone\n"), core_owns);
        set_to(&host, &[]).unwrap();
        assert_eq!(read(&host, KEYS).unwrap(), "ssh-rsa laptop\nssh-rsa phone\n");
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

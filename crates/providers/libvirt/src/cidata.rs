//! The disk that cloud-init reads: an ISO 9660 image with the label `cidata` and two files. Pure.
//!
//! Just enough of the format for Linux and cloud-init: one folder, no extensions. Linux shows the names in small letters.

const SECTOR: usize = 2048;
/// Sixteen sectors are kept for boot loaders, then come two descriptors, two path tables, the folder, and the files.
const DESCRIPTOR: usize = 16;
const PATHS_LITTLE: usize = 18;
const PATHS_BIG: usize = 19;
const FOLDER: usize = 20;
const FILES: usize = 21;

/// An image with the user data, and with meta data that names the machine.
pub(crate) fn image(user_data: &[u8], machine: &str) -> Vec<u8> {
    let meta_data = format!("instance-id: {machine}\nlocal-hostname: {machine}\n");
    let user_data = [interpreter(user_data), user_data].concat();
    let files = [("META-DATA.;1", meta_data.as_bytes()), ("USER-DATA.;1", &user_data)];
    let mut next = FILES;
    let mut entries = vec![record(&[0], FOLDER, SECTOR, true), record(&[1], FOLDER, SECTOR, true)];
    let mut contents = Vec::new();
    for (name, data) in files {
        entries.push(record(name.as_bytes(), next, data.len(), false));
        next += data.len().div_ceil(SECTOR);
        contents.push(padded(data));
    }
    let mut image = vec![0; DESCRIPTOR * SECTOR];
    image.extend(descriptor(next));
    image.extend(padded(&[255, b'C', b'D', b'0', b'0', b'1', 1]));
    image.extend(padded(&path_table(u32_of(FOLDER).to_le_bytes(), 1_u16.to_le_bytes())));
    image.extend(padded(&path_table(u32_of(FOLDER).to_be_bytes(), 1_u16.to_be_bytes())));
    image.extend(padded(&entries.concat()));
    image.extend(contents.concat());
    image
}

/// Upstream runs user data by bash. cloud-init knows what it is by its first line, so a script without one gets it.
fn interpreter(user_data: &[u8]) -> &'static [u8] {
    let known: [&[u8]; 4] = [b"#", b"MIME-Version:", b"Content-Type:", &[0x1f, 0x8b]];
    if known.iter().any(|start| user_data.starts_with(start)) { b"" } else { b"#!/bin/bash\n" }
}

fn descriptor(sectors: usize) -> Vec<u8> {
    let mut sector = vec![0; SECTOR];
    let mut put = |at: usize, bytes: &[u8]| sector[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[1, b'C', b'D', b'0', b'0', b'1', 1]);
    put(8, &[b' '; 32]);
    put(40, &[b' '; 32]);
    put(40, b"cidata");
    put(80, &both(sectors));
    put(120, &[1, 0, 0, 1]);
    put(124, &[1, 0, 0, 1]);
    put(128, &[0, 8, 8, 0]);
    put(132, &both(10));
    put(140, &u32_of(PATHS_LITTLE).to_le_bytes());
    put(148, &u32_of(PATHS_BIG).to_be_bytes());
    put(156, &record(&[0], FOLDER, SECTOR, true));
    // Names of the set, the publisher and others, which are texts of spaces; then four dates that are not set.
    put(190, &[b' '; 623]);
    for date in 0..4 {
        put(813 + date * 17, b"0000000000000000\0");
    }
    put(881, &[1]);
    sector
}

/// One entry of a folder.
fn record(name: &[u8], sector: usize, size: usize, is_folder: bool) -> Vec<u8> {
    let padding = usize::from(name.len().is_multiple_of(2));
    let length = 33 + name.len() + padding;
    let mut record = vec![u8::try_from(length).unwrap_or(u8::MAX), 0];
    record.extend(both(sector));
    record.extend(both(size));
    record.extend([0; 7]);
    record.extend([if is_folder { 2 } else { 0 }, 0, 0]);
    record.extend([1, 0, 0, 1]);
    record.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    record.extend(name);
    record.extend(vec![0; padding]);
    record
}

fn path_table(sector: [u8; 4], parent: [u8; 2]) -> Vec<u8> {
    [&[1, 0], sector.as_slice(), &parent, &[0, 0]].concat()
}

/// The format has its numbers in both orders of bytes.
fn both(number: usize) -> [u8; 8] {
    let number = u32_of(number);
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Secrets end at 1 MiB, so nothing here is larger.
fn u32_of(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn padded(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    data.resize(data.len().next_multiple_of(SECTOR), 0);
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_where_their_entries_say() {
        let user_data = [b"#cloud-config\n".as_slice(), &[b'u'; 3000]].concat();
        let image = image(&user_data, "m-1");
        assert_eq!(image.len(), (FILES + 1 + 2) * SECTOR);
        assert_eq!(&image[DESCRIPTOR * SECTOR + 40..][..6], b"cidata");
        let folder = &image[FOLDER * SECTOR..][..SECTOR];
        let (mut at, mut found) = (0, Vec::new());
        while folder[at] != 0 {
            let entry = &folder[at..at + usize::from(folder[at])];
            let number = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap()) as usize;
            let name = String::from_utf8_lossy(&entry[33..33 + usize::from(entry[32])]).into_owned();
            found.push((name, image[number(2) * SECTOR..][..number(10)].to_vec()));
            at += entry.len();
        }
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["\0", "\u{1}", "META-DATA.;1", "USER-DATA.;1"]);
        assert_eq!(found[2].1, b"instance-id: m-1\nlocal-hostname: m-1\n");
        assert_eq!(found[3].1, user_data);
    }

    #[test]
    fn a_script_without_an_interpreter_is_run_by_bash() {
        for (user_data, expected) in
            [("echo", "#!/bin/bash\n"), ("#!/bin/sh\necho", ""), ("#cloud-config", ""), ("Content-Type: multipart", "")]
        {
            assert_eq!(interpreter(user_data.as_bytes()), expected.as_bytes(), "{user_data}");
        }
    }
}

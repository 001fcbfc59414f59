//! The image of every process: both binaries, links under upstream's names, the authorities of the web, and nothing else.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use operate::programs::{LINKS, MACHINIST, MACHINISTD};
use packages::Image;

use super::programs::Programs;

/// The name that `machinist install` gives to pods unless told otherwise.
pub(super) fn name() -> String {
    operate::Images::default().machine_config_operator
}

/// Where TLS libraries of Linux look for certificate authorities.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The certificate authorities of the web as PEM. Without them no cloud and no remote source can be called from a pod.
fn authorities() -> String {
    webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().fold(String::new(), |mut text, certificate| {
        let encoded = STANDARD.encode(certificate);
        let lines = encoded.as_bytes().chunks(64).map(String::from_utf8_lossy);
        let body = lines.collect::<Vec<_>>().join("\n");
        let _ = writeln!(text, "-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----");
        text
    })
}

pub(super) fn image(programs: &Programs) -> anyhow::Result<Image> {
    let mut image = Image::new(&name()).entrypoint(&["/usr/bin/machinist"]);
    image = image.architecture(programs.architecture).text(AUTHORITIES, &authorities());
    if programs.is_static {
        image = image.compressed();
    }
    for (name, source) in [(MACHINIST, &programs.machinist), (MACHINISTD, &programs.machinistd)] {
        // A static program brings no library, and one that was built for this machine brings this machine's.
        image = image.program(&format!("/usr/bin/{name}"), source)?;
    }
    Ok(LINKS.iter().fold(image, |image, link| image.link(&format!("/usr/bin/{}", link.name), link.program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authorities_are_certificates_that_can_be_read() {
        let read = operate::certificates::read(authorities().as_bytes()).expect("they are PEM");
        assert!(read.len() > 100, "{} authorities", read.len());
    }
}

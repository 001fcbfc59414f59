//! The image of every process: both binaries, links under upstream's names, and nothing else.

use operate::programs::{LINKS, MACHINIST, MACHINISTD};
use packages::Image;

use super::programs::Programs;

/// The name that `machinist install` gives to pods unless told otherwise.
pub(super) fn name() -> String {
    operate::Images::default().machine_config_operator
}

pub(super) fn image(programs: &Programs) -> anyhow::Result<Image> {
    let mut image = Image::new(&name()).entrypoint(&["/usr/bin/machinist"]);
    if programs.is_static {
        image = image.compressed();
    }
    for (name, source) in [(MACHINIST, &programs.machinist), (MACHINISTD, &programs.machinistd)] {
        // A static program brings no library, and one that was built for this machine brings this machine's.
        image = image.program(&format!("/usr/bin/{name}"), source)?;
    }
    Ok(LINKS.iter().fold(image, |image, link| image.link(&format!("/usr/bin/{}", link.name), link.program)))
}

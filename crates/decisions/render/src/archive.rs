//! A rendered config kept beside its provenance, so that it can be made again after somebody deleted it.

use std::io::{Read, Write};

use api::machineconfiguration::MachineConfig;
use api::machinist::Archive;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;

use crate::name;

const ENCODING: &str = "gzip";

/// An archive larger than this was not made by [`archive`]: no object of the API is.
const LIMIT: u64 = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error("archive encoding {0:?} is not known (allowed: gzip)")]
    Encoding(String),
    #[error("archive cannot be read: {0}")]
    Data(String),
    #[error("archived config is {found}, not {wanted}")]
    Name { wanted: String, found: String },
}

/// Packs a rendered config.
pub fn archive(config: &MachineConfig) -> Archive {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let json = serde_json::to_vec(config).expect("our own types are always JSON");
    encoder.write_all(&json).expect("memory takes everything");
    Archive { encoding: ENCODING.to_owned(), data: ByteString(encoder.finish().expect("memory takes everything")) }
}

/// Unpacks a rendered config and proves that it is the one asked for: its content must make its name again, unless the name
/// was kept from a config of upstream's, which only the archived name can prove.
pub fn restore(archive: &Archive, pool: &str, wanted: &str) -> Result<MachineConfig, RestoreError> {
    if archive.encoding != ENCODING {
        return Err(RestoreError::Encoding(archive.encoding.clone()));
    }
    let mut json = Vec::new();
    let mut decoder = GzDecoder::new(archive.data.0.as_slice()).take(LIMIT);
    decoder.read_to_end(&mut json).map_err(|error| RestoreError::Data(error.to_string()))?;
    let config: MachineConfig = serde_json::from_slice(&json).map_err(|error| RestoreError::Data(error.to_string()))?;
    let archived = config.metadata.name.clone().unwrap_or_default();
    let made = name(pool, &config.spec);
    if archived != wanted && made != wanted {
        return Err(RestoreError::Name { wanted: wanted.to_owned(), found: archived });
    }
    Ok(config)
}

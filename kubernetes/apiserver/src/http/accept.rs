//! Which form of an answer the client can read.

/// How an object is shaped before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Shape {
    #[default]
    Object,
    Table,
    /// `PartialObjectMetadata`, or its list.
    Metadata,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Accept {
    pub shape: Shape,
    /// `v1` or `v1beta1`, of the shapes in `meta.k8s.io`.
    pub shape_version: String,
    pub yaml: bool,
    pub pretty: bool,
    /// Aggregated discovery, by version (`v2`, `v2beta1`).
    pub discovery: Option<String>,
    /// Nothing of what the client names can be written.
    pub impossible: bool,
}

impl Accept {
    pub(crate) fn parse(header: &str) -> Self {
        let clauses: Vec<&str> = header.split(',').map(str::trim).filter(|clause| !clause.is_empty()).collect();
        if clauses.is_empty() {
            return Self::default();
        }
        clauses.into_iter().find_map(clause).unwrap_or(Self { impossible: true, ..Self::default() })
    }
}

/// One clause of the header, if it can be served. Clients list them by preference.
fn clause(text: &str) -> Option<Accept> {
    let mut parts = text.split(';').map(str::trim);
    let mut accept = Accept::default();
    match parts.next()? {
        "application/json" | "*/*" | "application/*" => {}
        "application/yaml" => accept.yaml = true,
        _ => return None,
    }
    let (mut kind, mut group, mut version) = ("", "", "");
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        match key.trim() {
            "as" => kind = value.trim(),
            "g" => group = value.trim(),
            "v" => version = value.trim(),
            "pretty" => accept.pretty = value.trim() == "1",
            _ => {}
        }
    }
    match (kind, group, version) {
        ("", _, _) => {}
        ("Table", "meta.k8s.io", "v1" | "v1beta1") => accept.shape = Shape::Table,
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1" | "v1beta1") => {
            accept.shape = Shape::Metadata;
        }
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2" | "v2beta1") => {
            accept.discovery = Some(version.to_owned());
            return Some(accept);
        }
        _ => return None,
    }
    accept.shape_version = version.to_owned();
    Some(accept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_clause_that_can_be_served_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(Accept::parse(table).shape, Shape::Table);
        assert_eq!(Accept::parse("application/vnd.kubernetes.protobuf,application/json"), Accept::default());
        assert!(Accept::parse("application/vnd.kubernetes.protobuf").impossible);
        assert!(Accept::parse("text/html, */*").shape == Shape::Object);
        assert_eq!(Accept::parse(""), Accept::default());
        let discovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert_eq!(Accept::parse(discovery).discovery.as_deref(), Some("v2"));
    }
}

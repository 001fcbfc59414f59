//! Why the registries of a pool cannot be configured: upstream's sentences, with what would be right.

/// A refusal that names the entry at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "error parsing reference of release image {0:?}: it must name registry and repository, for example quay.io/org/release@sha256:…"
    )]
    ReleaseImage(String),
    #[error("could not get the registries that hosts start from: {0}")]
    Defaults(String),
    #[error("could not update registries config with new changes: error unmarshalling registries config: {0}")]
    DefaultRegistries(String),
    #[error("could not update policy json with new changes: error decoding policy json: {0}")]
    DefaultPolicy(String),
    #[error(
        "invalid entry for {list} registries {entry:?}; write a host, a repository or a wildcard such as *.example.com"
    )]
    Scope { list: &'static str, entry: String },
    #[error(
        "could not update registries config with new changes: invalid format for source {source_name:?} in {object}; for example quay.io/org or *.example.com"
    )]
    Source { object: String, source_name: String },
    #[error(
        "could not update registries config with new changes: invalid format for mirror {mirror:?} in {object}; for example mirror.example.com:5000/org"
    )]
    Mirror { object: String, mirror: String },
    #[error(
        "could not update registries config with new changes: conflicting mirrorSourcePolicy is set for the same source {source_name:?} in imagedigestmirrorsets, imagetagmirrorsets, or imagecontentsourcepolicies ({object} differs from an earlier one)"
    )]
    SourcePolicy { object: String, source_name: String },
    #[error(
        "could not update registries config with new changes: cannot set mirrorSourcePolicy: NeverContactSource if the source {source_name:?} is one of the mirrors (in {object})"
    )]
    NeverContact { object: String, source_name: String },
    #[error(
        "could not update registries config with new changes: mirrors of the wildcard {source_name:?} cannot be carried over to {scope:?}, which is insecure or blocked by itself and has a port; name mirrors for {scope:?} too"
    )]
    WildcardMirror { source_name: String, scope: String },
    #[error(
        "could not update policy json with new changes: invalid images config: only one of AllowedRegistries or BlockedRegistries may be specified"
    )]
    AllowedAndBlocked,
    #[error(
        "could not update policy json with new changes: clusterimagePolicy configured for the scope {scope} is not nested inside allowedRegistries"
    )]
    ClusterPolicyNotAllowed { scope: String },
    #[error(
        "could not update policy json with new changes: clusterimagePolicy configured for the scope {scope} is nested inside blockedRegistries"
    )]
    ClusterPolicyBlocked { scope: String },
    #[error(
        "could not update namespace policy JSON from imagepolicy: imagePolicy configured for the scope {scope} is not nested inside allowedRegistries"
    )]
    PolicyNotAllowed { scope: String },
    #[error(
        "could not update namespace policy JSON from imagepolicy: imagePolicy configured for the scope {scope} is nested inside blockedRegistries"
    )]
    PolicyBlocked { scope: String },
    #[error("{object}: {problem}")]
    Signature { object: String, problem: super::signature::Problem },
    #[error("error adding clusterimagepolicy scope {scope} relevant mirrors: {problem}")]
    PolicyMirrors { scope: String, problem: String },
}

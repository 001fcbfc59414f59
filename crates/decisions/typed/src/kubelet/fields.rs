//! The fields of a `KubeletConfiguration` (`kubelet.config.k8s.io/v1beta1`): their types, and since when kubelets know them.
//!
//! The table is the whole knowledge of shapes; what values may be is said in [`super::limits`].

/// What a field may hold.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Bool,
    /// A whole number between two bounds, both included.
    Int(i64, i64),
    Float,
    Text,
    Duration,
    Quantity,
    TextList,
    IntList,
    TextMap,
    TextListMap,
    BoolMap,
    QuantityMap,
    Object(&'static [Field]),
    Objects(&'static [Field]),
    /// A duration, or a number of nanoseconds as older kubelets wrote it.
    DurationOrNumber,
}

/// One field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    /// The first minor version of Kubernetes 1.x whose kubelet knows the field; 0 for all that are in use.
    pub since: u64,
}

impl Field {
    const fn since(self, minor: u64) -> Self {
        Self { since: minor, ..self }
    }
}

/// The field of this name, if an object has one.
pub fn find(fields: &'static [Field], name: &str) -> Option<&'static Field> {
    fields.iter().find(|field| field.name == name)
}

const INT32: Kind = Kind::Int(i32::MIN as i64, i32::MAX as i64);
const INT64: Kind = Kind::Int(i64::MIN, i64::MAX);
const UINT32: Kind = Kind::Int(0, u32::MAX as i64);

const fn field(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, since: 0 }
}
const fn bool(name: &'static str) -> Field {
    field(name, Kind::Bool)
}
const fn int(name: &'static str) -> Field {
    field(name, INT32)
}
const fn text(name: &'static str) -> Field {
    field(name, Kind::Text)
}
const fn duration(name: &'static str) -> Field {
    field(name, Kind::Duration)
}
const fn texts(name: &'static str) -> Field {
    field(name, Kind::TextList)
}
const fn map(name: &'static str) -> Field {
    field(name, Kind::TextMap)
}

/// A KubeletConfiguration.
pub const CONFIGURATION: &[Field] = &[
    text("apiVersion"),
    text("kind"),
    bool("enableServer"),
    text("staticPodPath"),
    duration("syncFrequency"),
    duration("fileCheckFrequency"),
    duration("httpCheckFrequency"),
    text("staticPodURL"),
    field("staticPodURLHeader", Kind::TextListMap),
    text("address"),
    int("port"),
    int("readOnlyPort"),
    text("tlsCertFile"),
    text("tlsPrivateKeyFile"),
    texts("tlsCipherSuites"),
    field("tlsCurvePreferences", Kind::IntList).since(36),
    text("tlsMinVersion"),
    bool("rotateCertificates"),
    bool("serverTLSBootstrap"),
    field("authentication", Kind::Object(AUTHENTICATION)),
    field("authorization", Kind::Object(AUTHORIZATION)),
    int("registryPullQPS"),
    int("registryBurst"),
    field("imagePullCredentialsVerificationPolicy", Kind::Text).since(33),
    texts("preloadedImagesVerificationAllowlist").since(33),
    int("eventRecordQPS"),
    int("eventBurst"),
    bool("enableDebuggingHandlers"),
    bool("enableContentionProfiling"),
    int("healthzPort"),
    text("healthzBindAddress"),
    int("oomScoreAdj"),
    text("clusterDomain"),
    texts("clusterDNS"),
    duration("streamingConnectionIdleTimeout"),
    duration("nodeStatusUpdateFrequency"),
    duration("nodeStatusReportFrequency"),
    int("nodeLeaseDurationSeconds"),
    duration("imageMinimumGCAge"),
    duration("imageMaximumGCAge").since(29),
    int("imageGCHighThresholdPercent"),
    int("imageGCLowThresholdPercent"),
    duration("volumeStatsAggPeriod"),
    text("kubeletCgroups"),
    text("systemCgroups"),
    text("cgroupRoot"),
    bool("cgroupsPerQOS"),
    text("cgroupDriver"),
    text("cpuManagerPolicy"),
    map("cpuManagerPolicyOptions"),
    duration("cpuManagerReconcilePeriod"),
    text("memoryManagerPolicy"),
    text("topologyManagerPolicy"),
    text("topologyManagerScope"),
    map("topologyManagerPolicyOptions").since(26),
    map("qosReserved"),
    duration("runtimeRequestTimeout"),
    text("hairpinMode"),
    int("maxPods"),
    text("podCIDR"),
    field("podPidsLimit", INT64),
    text("resolvConf"),
    bool("runOnce"),
    bool("cpuCFSQuota"),
    duration("cpuCFSQuotaPeriod"),
    int("nodeStatusMaxImages"),
    field("maxOpenFiles", INT64),
    text("contentType"),
    int("kubeAPIQPS"),
    int("kubeAPIBurst"),
    bool("serializeImagePulls"),
    int("maxParallelImagePulls").since(27),
    map("evictionHard"),
    map("evictionSoft"),
    map("evictionSoftGracePeriod"),
    duration("evictionPressureTransitionPeriod"),
    int("evictionMaxPodGracePeriod"),
    map("evictionMinimumReclaim"),
    bool("mergeDefaultEvictionSettings").since(33),
    int("podsPerCore"),
    bool("enableControllerAttachDetach"),
    bool("protectKernelDefaults"),
    bool("makeIPTablesUtilChains"),
    int("iptablesMasqueradeBit"),
    int("iptablesDropBit"),
    field("featureGates", Kind::BoolMap),
    bool("failSwapOn"),
    field("memorySwap", Kind::Object(&[text("swapBehavior")])),
    text("containerLogMaxSize"),
    int("containerLogMaxFiles"),
    int("containerLogMaxWorkers").since(30),
    duration("containerLogMonitorInterval").since(30),
    text("configMapAndSecretChangeDetectionStrategy"),
    map("systemReserved"),
    map("kubeReserved"),
    text("reservedSystemCPUs"),
    text("showHiddenMetricsForVersion"),
    text("systemReservedCgroup"),
    text("kubeReservedCgroup"),
    texts("enforceNodeAllocatable"),
    texts("allowedUnsafeSysctls"),
    text("volumePluginDir"),
    text("providerID"),
    bool("kernelMemcgNotification"),
    field("logging", Kind::Object(LOGGING)),
    bool("enableSystemLogHandler"),
    bool("enableSystemLogQuery").since(27),
    duration("shutdownGracePeriod"),
    duration("shutdownGracePeriodCriticalPods"),
    field(
        "shutdownGracePeriodByPodPriority",
        Kind::Objects(&[int("priority"), field("shutdownGracePeriodSeconds", INT64)]),
    ),
    field("crashLoopBackOff", Kind::Object(&[duration("maxContainerRestartPeriod")])).since(32),
    field("reservedMemory", Kind::Objects(&[int("numaNode"), field("limits", Kind::QuantityMap)])),
    text("memoryReservationPolicy").since(36),
    bool("enableProfilingHandler"),
    bool("enableDebugFlagsHandler"),
    bool("seccompDefault"),
    field("memoryThrottlingFactor", Kind::Float),
    field("registerWithTaints", Kind::Objects(&[text("key"), text("value"), text("effect"), text("timeAdded")])),
    bool("registerNode"),
    field("tracing", Kind::Object(&[text("endpoint"), int("samplingRatePerMillion")])),
    bool("localStorageCapacityIsolation"),
    text("containerRuntimeEndpoint").since(27),
    text("imageServiceEndpoint").since(27),
    bool("failCgroupV1").since(31),
    text("podLogsDir").since(30),
    bool("singleProcessOOMKill").since(32),
    field("userNamespaces", Kind::Object(&[field("idsPerPod", INT64)])).since(33),
];

const AUTHENTICATION: &[Field] = &[
    field("x509", Kind::Object(&[text("clientCAFile")])),
    field("webhook", Kind::Object(&[bool("enabled"), duration("cacheTTL")])),
    field("anonymous", Kind::Object(&[bool("enabled")])),
];

const AUTHORIZATION: &[Field] = &[
    text("mode"),
    field("webhook", Kind::Object(&[duration("cacheAuthorizedTTL"), duration("cacheUnauthorizedTTL")])),
];

const LOGGING: &[Field] = &[
    text("format"),
    field("flushFrequency", Kind::DurationOrNumber),
    field("verbosity", UINT32),
    field("vmodule", Kind::Objects(&[text("filePattern"), field("verbosity", UINT32)])),
    field("options", Kind::Object(&[field("text", Kind::Object(STREAMS)), field("json", Kind::Object(STREAMS))])),
];

const STREAMS: &[Field] = &[bool("splitStream"), field("infoBufferSize", Kind::Quantity)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_is_listed_twice() {
        let mut names: Vec<_> = CONFIGURATION.iter().map(|field| field.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}

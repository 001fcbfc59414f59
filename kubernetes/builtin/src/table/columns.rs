//! The columns of built-in resources, in the real server's order.

/// One column definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    pub format: &'static str,
    /// 0 is always printed, 1 in wide output.
    pub priority: i32,
}

/// A line is `group/plural: columns`. A column is a string unless `#` (integer), `?` (boolean) or `@` (date) says otherwise; `+`
/// marks wide output. `Name` has the format `name`.
const COLUMNS: &str = "\
/componentstatuses: Name, Status, Message, Error
/configmaps: Name, Data, Age
/endpoints: Name, Endpoints, Age
/events: Last Seen, Type, Reason, Object, +Subobject, +Source, Message, +First Seen, +Count, +Name
/namespaces: Name, Status, Age
/nodes: Name, Status, Roles, Age, Version, +Internal-IP, +External-IP, +OS-Image, +Kernel-Version, +Container-Runtime
/persistentvolumeclaims: Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, +VolumeMode
/persistentvolumes: Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, Age, +VolumeMode
/pods: Name, Ready, Status, Restarts, Age, +IP, +Node, +Nominated Node, +Readiness Gates
/podtemplates: Name, Containers, Images, Pod Labels
/replicationcontrollers: Name, #Desired, #Current, #Ready, Age, +Containers, +Images, +Selector
/resourcequotas: Name, Request, Limit, Age
/secrets: Name, Type, Data, Age
/serviceaccounts: Name, Age
/services: Name, Type, Cluster-IP, External-IP, Port(s), Age, +Selector
admissionregistration.k8s.io/mutatingadmissionpolicies: Name, #Mutations, ParamKind, Age
admissionregistration.k8s.io/mutatingadmissionpolicybindings: Name, PolicyName, ParamRef, Age
admissionregistration.k8s.io/mutatingwebhookconfigurations: Name, #Webhooks, Age
admissionregistration.k8s.io/validatingadmissionpolicies: Name, #Validations, ParamKind, Age
admissionregistration.k8s.io/validatingadmissionpolicybindings: Name, PolicyName, ParamRef, Age
admissionregistration.k8s.io/validatingwebhookconfigurations: Name, #Webhooks, Age
apiregistration.k8s.io/apiservices: Name, Service, Available, Age
apps/controllerrevisions: Name, Controller, Revision, Age
apps/daemonsets: Name, #Desired, #Current, #Ready, #Up-to-date, #Available, Node Selector, Age, +Containers, +Images, +Selector
apps/deployments: Name, Ready, Up-to-date, Available, Age, +Containers, +Images, +Selector
apps/replicasets: Name, #Desired, #Current, #Ready, Age, +Containers, +Images, +Selector
apps/statefulsets: Name, Ready, Age, +Containers, +Images
autoscaling/horizontalpodautoscalers: Name, Reference, Targets, MinPods, MaxPods, Replicas, Age
batch/cronjobs: Name, Schedule, Timezone, ?Suspend, #Active, Last Schedule, Age, +Containers, +Images, +Selector
batch/jobs: Name, Status, Completions, Duration, Age, +Containers, +Images, +Selector
certificates.k8s.io/certificatesigningrequests: Name, Age, SignerName, Requestor, RequestedDuration, Condition
coordination.k8s.io/leases: Name, Holder, Age
discovery.k8s.io/endpointslices: Name, AddressType, Ports, Endpoints, Age
events.k8s.io/events: Last Seen, Type, Reason, Object, +Subobject, +Source, Message, +First Seen, +Count, +Name
flowcontrol.apiserver.k8s.io/flowschemas: Name, PriorityLevel, MatchingPrecedence, DistinguisherMethod, Age, MissingPL
flowcontrol.apiserver.k8s.io/prioritylevelconfigurations: Name, Type, NominalConcurrencyShares, Queues, HandSize, QueueLengthLimit, Age
networking.k8s.io/ingressclasses: Name, Controller, Parameters, Age
networking.k8s.io/ingresses: Name, Class, Hosts, Address, Ports, Age
networking.k8s.io/ipaddresses: Name, ParentRef
networking.k8s.io/networkpolicies: Name, Pod-Selector, Age
networking.k8s.io/servicecidrs: Name, CIDRs, Age
node.k8s.io/runtimeclasses: Name, Handler, Age
policy/poddisruptionbudgets: Name, Min Available, Max Unavailable, #Allowed Disruptions, Age
rbac.authorization.k8s.io/clusterrolebindings: Name, Role, Age, +Users, +Groups, +ServiceAccounts
rbac.authorization.k8s.io/rolebindings: Name, Role, Age, +Users, +Groups, +ServiceAccounts
resource.k8s.io/deviceclasses: Name, Age
resource.k8s.io/resourceclaims: Name, State, Age
resource.k8s.io/resourceclaimtemplates: Name, Age
resource.k8s.io/resourceslices: Name, Node, Driver, Pool, Age
scheduling.k8s.io/priorityclasses: Name, #Value, ?Global-Default, Age, PreemptionPolicy
storage.k8s.io/csidrivers: Name, ?AttachRequired, ?PodInfoOnMount, ?StorageCapacity, TokenRequests, ?RequiresRepublish, Modes, Age
storage.k8s.io/csinodes: Name, #Drivers, Age
storage.k8s.io/storageclasses: Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age
storage.k8s.io/volumeattachments: Name, Attacher, PV, Node, ?Attached, Age
storage.k8s.io/volumeattributesclasses: Name, DriverName, Age";

/// What a resource without a printer of its own shows.
const PLAIN: &str = "Name, @Created At";

/// The columns of a built-in resource; those without a printer of their own show their name and time of creation.
#[must_use]
pub fn columns(group: &str, plural: &str) -> Vec<Column> {
    let line = COLUMNS
        .lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(resource, _)| resource.split_once('/') == Some((group, plural)));
    line.map_or(PLAIN, |(_, columns)| columns).split(", ").map(column).collect()
}

fn column(text: &'static str) -> Column {
    let (priority, text) = text.strip_prefix('+').map_or((0, text), |rest| (1, rest));
    let (kind, name) = match text.split_at(1) {
        ("#", rest) => ("integer", rest),
        ("?", rest) => ("boolean", rest),
        ("@", rest) => ("date", rest),
        _ => ("string", text),
    };
    Column { name, kind, format: if matches!(name, "Name" | "Attacher") { "name" } else { "" }, priority }
}

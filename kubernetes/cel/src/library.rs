//! Every function and operator that rules may call, with the types it takes and gives.

use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

use super::types::Type;

pub(super) struct Overload {
    pub(super) id: String,
    /// Called on a value: `a.f(b)`, where `a` is the first of the parameters.
    pub(super) member: bool,
    pub(super) takes: Vec<Type>,
    pub(super) gives: Type,
}

/// The overloads of a function, in the order in which they are tried.
static ALL: LazyLock<HashMap<String, Vec<Overload>>> = LazyLock::new(read);

/// Every name that can be called.
#[cfg(test)]
pub(super) fn functions() -> impl Iterator<Item = &'static str> {
    ALL.keys().map(String::as_str)
}

/// What only expressions that make patches may call.
pub(super) const OF_PATCHES: &str = "jsonpatch.escapeKey";

pub(super) fn overloads(function: &str) -> Option<&'static [Overload]> {
    ALL.get(function).map(Vec::as_slice)
}

/// Whether the overload of this id is called on a value.
pub(super) fn is_member(id: &str) -> bool {
    static MEMBERS: LazyLock<HashSet<String>> = LazyLock::new(|| {
        read().into_values().flatten().filter(|overload| overload.member).map(|overload| overload.id).collect()
    });
    MEMBERS.contains(id)
}

/// Names that stand for types.
pub(super) fn constant(name: &str) -> Option<Type> {
    let named = match name {
        "list" => Type::list(Type::Dyn),
        "map" => Type::Map(Box::new(Type::Dyn), Box::new(Type::Dyn)),
        "null_type" => Type::Null,
        "type" => Type::Named(Box::new(Type::Dyn)),
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        "bool" | "int" | "uint" | "double" | "string" | "bytes" => parse(name),
        "net.IP" | "net.CIDR" => Type::Opaque(name.to_owned(), Vec::new()),
        "kubernetes.Quantity" | "kubernetes.URL" | "kubernetes.NamedFormat" | "kubernetes.Semver" => {
            Type::Struct(name.to_owned())
        }
        _ => return None,
    };
    Some(Type::Named(Box::new(named)))
}

/// One overload a line: the function, its id (with a dot if it is called on a value), what it takes, what it gives.
const TABLE: &str = "
jsonpatch.escapeKey string_jsonpatch_escapeKey_string string -> string
_?_:_ conditional bool A A -> A
_&&_ logical_and bool bool -> bool
_||_ logical_or bool bool -> bool
!_ logical_not bool -> bool
@not_strictly_false not_strictly_false bool -> bool
_==_ equals A A -> bool
_!=_ not_equals A A -> bool
_+_ add_bytes bytes bytes -> bytes
_+_ add_double double double -> double
_+_ add_duration_duration duration duration -> duration
_+_ add_duration_timestamp duration timestamp -> timestamp
_+_ add_timestamp_duration timestamp duration -> timestamp
_+_ add_int64 int int -> int
_+_ add_list list(A) list(A) -> list(A)
_+_ add_string string string -> string
_+_ add_uint64 uint uint -> uint
_/_ divide_double double double -> double
_/_ divide_int64 int int -> int
_/_ divide_uint64 uint uint -> uint
_%_ modulo_int64 int int -> int
_%_ modulo_uint64 uint uint -> uint
_*_ multiply_double double double -> double
_*_ multiply_int64 int int -> int
_*_ multiply_uint64 uint uint -> uint
-_ negate_double double -> double
-_ negate_int64 int -> int
_-_ subtract_double double double -> double
_-_ subtract_duration_duration duration duration -> duration
_-_ subtract_int64 int int -> int
_-_ subtract_timestamp_duration timestamp duration -> timestamp
_-_ subtract_timestamp_timestamp timestamp timestamp -> duration
_-_ subtract_uint64 uint uint -> uint
_[_] index_list list(A) int -> A
_[_] index_map map(A,B) A -> B
_[_] optional_list_index_int optional(list(A)) int -> optional(A)
_[_] optional_map_index_value optional(map(A,B)) A -> optional(B)
_[?_] list_optindex_optional_int list(A) int -> optional(A)
_[?_] optional_list_optindex_optional_int optional(list(A)) int -> optional(A)
_[?_] map_optindex_optional_value map(A,B) A -> optional(B)
_[?_] optional_map_optindex_optional_value optional(map(A,B)) A -> optional(B)
@in in_list A list(A) -> bool
@in in_map A map(A,B) -> bool
size size_bytes bytes -> int
size .bytes_size bytes -> int
size size_list list(A) -> int
size .list_size list(A) -> int
size size_map map(A,B) -> int
size .map_size map(A,B) -> int
size size_string string -> int
size .string_size string -> int
type type A -> type(A)
dyn to_dyn A -> dyn
bool bool_to_bool bool -> bool
bool string_to_bool string -> bool
bytes bytes_to_bytes bytes -> bytes
bytes string_to_bytes string -> bytes
double double_to_double double -> double
double int64_to_double int -> double
double string_to_double string -> double
double uint64_to_double uint -> double
duration duration_to_duration duration -> duration
duration int64_to_duration int -> duration
duration string_to_duration string -> duration
int int64_to_int64 int -> int
int double_to_int64 double -> int
int duration_to_int64 duration -> int
int string_to_int64 string -> int
int timestamp_to_int64 timestamp -> int
int uint64_to_int64 uint -> int
string string_to_string string -> string
string bool_to_string bool -> string
string bytes_to_string bytes -> string
string double_to_string double -> string
string duration_to_string duration -> string
string int64_to_string int -> string
string timestamp_to_string timestamp -> string
string uint64_to_string uint -> string
string ip_to_string ip -> string
string cidr_to_string cidr -> string
timestamp timestamp_to_timestamp timestamp -> timestamp
timestamp int64_to_timestamp int -> timestamp
timestamp string_to_timestamp string -> timestamp
uint uint64_to_uint64 uint -> uint
uint double_to_uint64 double -> uint
uint int64_to_uint64 int -> uint
uint string_to_uint64 string -> uint
contains .contains_string string string -> bool
endsWith .ends_with_string string string -> bool
startsWith .starts_with_string string string -> bool
matches matches string string -> bool
matches .matches_string string string -> bool
charAt .string_char_at_int string int -> string
indexOf .string_index_of_string string string -> int
indexOf .string_index_of_string_int string string int -> int
indexOf .list_a_index_of_int list(A) A -> int
lastIndexOf .string_last_index_of_string string string -> int
lastIndexOf .string_last_index_of_string_int string string int -> int
lastIndexOf .list_a_last_index_of_int list(A) A -> int
lowerAscii .string_lower_ascii string -> string
upperAscii .string_upper_ascii string -> string
replace .string_replace_string_string string string string -> string
replace .string_replace_string_string_int string string string int -> string
split .string_split_string string string -> list(string)
split .string_split_string_int string string int -> list(string)
substring .string_substring_int string int -> string
substring .string_substring_int_int string int int -> string
trim .string_trim string -> string
format .string_format string list(dyn) -> string
strings.quote strings_quote string -> string
join .list_join list(string) -> string
join .list_join_string list(string) string -> string
reverse .list_reverse list(A) -> list(A)
slice .list_slice list(A) int int -> list(A)
flatten .list_flatten list(list(A)) -> list(A)
flatten .list_flatten_int list(dyn) int -> list(dyn)
lists.range lists_range int -> list(int)
distinct .list_distinct list(A) -> list(A)
cel.@mapInsert @mapInsert_map_key_value map(A,B) A B -> map(A,B)
cel.@mapInsert @mapInsert_map_map map(A,B) map(A,B) -> map(A,B)
sets.contains list_sets_contains_list list(A) list(A) -> bool
sets.equivalent list_sets_equivalent_list list(A) list(A) -> bool
sets.intersects list_sets_intersects_list list(A) list(A) -> bool
optional.of optional_of A -> optional(A)
optional.ofNonZeroValue optional_ofNonZeroValue A -> optional(A)
optional.none optional_none -> optional(A)
optional.unwrap optional_unwrap list(optional(A)) -> list(A)
unwrapOpt .optional_unwrapOpt list(optional(A)) -> list(A)
value .optional_value optional(A) -> A
hasValue .optional_hasValue optional(A) -> bool
or .optional_or_optional optional(A) optional(A) -> optional(A)
orValue .optional_orValue_value optional(A) A -> A
last .list_last list(A) -> optional(A)
first .list_first list(A) -> optional(A)
url string_to_url string -> url
getScheme .url_get_scheme url -> string
getHost .url_get_host url -> string
getHostname .url_get_hostname url -> string
getPort .url_get_port url -> string
getEscapedPath .url_get_escaped_path url -> string
getQuery .url_get_query url -> map(string,list(string))
isURL is_url_string string -> bool
find .string_find_string string string -> string
findAll .string_find_all_string string string -> list(string)
findAll .string_find_all_string_int string string int -> list(string)
quantity string_to_quantity string -> quantity
isQuantity is_quantity_string string -> bool
sign quantity_sign quantity -> int
isGreaterThan .quantity_is_greater_than quantity quantity -> bool
isGreaterThan .semver_is_greater_than semver semver -> bool
isLessThan .quantity_is_less_than quantity quantity -> bool
isLessThan .semver_is_less_than semver semver -> bool
compareTo .quantity_compare_to quantity quantity -> int
compareTo .semver_compare_to semver semver -> int
asApproximateFloat .quantity_get_float quantity -> double
asInteger .quantity_get_int quantity -> int
isInteger .quantity_is_integer quantity -> bool
add .quantity_add quantity quantity -> quantity
add .quantity_add_int quantity int -> quantity
sub .quantity_sub quantity quantity -> quantity
sub .quantity_sub_int quantity int -> quantity
semver string_to_semver string -> semver
semver string_bool_to_semver string bool -> semver
isSemver is_semver_string string -> bool
isSemver is_semver_string_bool string bool -> bool
major .semver_major semver -> int
minor .semver_minor semver -> int
patch .semver_patch semver -> int
ip string_to_ip string -> ip
ip .cidr_ip cidr -> ip
family .ip_family ip -> int
ip.isCanonical ip_is_canonical string -> bool
isUnspecified .ip_is_unspecified ip -> bool
isLoopback .ip_is_loopback ip -> bool
isLinkLocalMulticast .ip_is_link_local_multicast ip -> bool
isLinkLocalUnicast .ip_is_link_local_unicast ip -> bool
isGlobalUnicast .ip_is_global_unicast ip -> bool
isIP is_ip string -> bool
cidr string_to_cidr string -> cidr
containsIP .cidr_contains_ip_string cidr string -> bool
containsIP .cidr_contains_ip_ip cidr ip -> bool
containsCIDR .cidr_contains_cidr_string cidr string -> bool
containsCIDR .cidr_contains_cidr cidr cidr -> bool
prefixLength .cidr_prefix_length cidr -> int
masked .cidr_masked cidr -> cidr
isCIDR is_cidr string -> bool
validate .format-validate format string -> optional(list(string))
format.named format-named string -> optional(format)
path .authorizer_path authorizer string -> pathcheck
group .authorizer_group authorizer string -> groupcheck
serviceAccount .authorizer_serviceaccount authorizer string string -> authorizer
resource .groupcheck_resource groupcheck string -> resourcecheck
subresource .resourcecheck_subresource resourcecheck string -> resourcecheck
namespace .resourcecheck_namespace resourcecheck string -> resourcecheck
name .resourcecheck_name resourcecheck string -> resourcecheck
fieldSelector .authorizer_fieldselector resourcecheck string -> resourcecheck
labelSelector .authorizer_labelselector resourcecheck string -> resourcecheck
check .pathcheck_check pathcheck string -> decision
check .resourcecheck_check resourcecheck string -> decision
errored .decision_errored decision -> bool
error .decision_error decision -> string
allowed .decision_allowed decision -> bool
reason .decision_reason decision -> string
";

/// The names of formats that texts can be checked against.
pub(super) const FORMATS: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

const COMPARABLE: [&str; 8] = ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"];

/// The pairs of types that have an order.
const ORDERED: [(&str, &str, &str); 14] = [
    ("bool", "bool", "bool"),
    ("int64", "int", "int"),
    ("int64_double", "int", "double"),
    ("int64_uint64", "int", "uint"),
    ("uint64", "uint", "uint"),
    ("uint64_double", "uint", "double"),
    ("uint64_int64", "uint", "int"),
    ("double", "double", "double"),
    ("double_int64", "double", "int"),
    ("double_uint64", "double", "uint"),
    ("string", "string", "string"),
    ("bytes", "bytes", "bytes"),
    ("timestamp", "timestamp", "timestamp"),
    ("duration", "duration", "duration"),
];

fn read() -> HashMap<String, Vec<Overload>> {
    let mut all: HashMap<String, Vec<Overload>> = HashMap::new();
    let mut add = |line: &str| {
        let Some((head, gives)) = line.split_once("->") else { return };
        let mut words = head.split_whitespace();
        let (Some(function), Some(id)) = (words.next(), words.next()) else { return };
        let overload = Overload {
            id: id.trim_start_matches('.').to_owned(),
            member: id.starts_with('.'),
            takes: words.map(parse).collect(),
            gives: parse(gives.trim()),
        };
        all.entry(function.to_owned()).or_default().push(overload);
    };
    TABLE.lines().for_each(&mut add);
    for (operator, name) in [("_<_", "less"), ("_<=_", "less_equals"), ("_>_", "greater"), ("_>=_", "greater_equals")] {
        for (id, left, right) in ORDERED {
            add(&format!("{operator} {name}_{id} {left} {right} -> bool"));
        }
    }
    for one in COMPARABLE {
        add(&format!("isSorted .list_{one}_is_sorted_bool list({one}) -> bool"));
        add(&format!("max .list_{one}_max_{one} list({one}) -> {one}"));
        add(&format!("min .list_{one}_min_{one} list({one}) -> {one}"));
        add(&format!("sort .list_{one}_sort list({one}) -> list({one})"));
        add(&format!("@sortByAssociatedKeys .list_{one}_sortByAssociatedKeys list(A) list({one}) -> list(A)"));
    }
    for one in ["int", "uint", "double", "duration"] {
        add(&format!("sum .list_{one}_sum_{one} list({one}) -> {one}"));
    }
    for name in FORMATS {
        add(&format!("format.{name} format.{name} -> format"));
    }
    for (part, of_duration) in [
        ("getFullYear", false),
        ("getMonth", false),
        ("getDayOfYear", false),
        ("getDayOfMonth", false),
        ("getDate", false),
        ("getDayOfWeek", false),
        ("getHours", true),
        ("getMinutes", true),
        ("getSeconds", true),
        ("getMilliseconds", true),
    ] {
        add(&format!("{part} .timestamp_{part} timestamp -> int"));
        add(&format!("{part} .timestamp_{part}_with_tz timestamp string -> int"));
        if of_duration {
            add(&format!("{part} .duration_{part} duration -> int"));
        }
    }
    all
}

/// Reads a type of the table: `list(A)`.
fn parse(text: &str) -> Type {
    let named = |name: &str| Type::Struct(name.to_owned());
    match text {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::Text,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "dyn" => Type::Dyn,
        "url" => named("kubernetes.URL"),
        "quantity" => named("kubernetes.Quantity"),
        "format" => named("kubernetes.NamedFormat"),
        "semver" => named("kubernetes.Semver"),
        "authorizer" => named("kubernetes.authorization.Authorizer"),
        "pathcheck" => named("kubernetes.authorization.PathCheck"),
        "groupcheck" => named("kubernetes.authorization.GroupCheck"),
        "resourcecheck" => named("kubernetes.authorization.ResourceCheck"),
        "decision" => named("kubernetes.authorization.Decision"),
        "ip" => Type::Opaque("net.IP".to_owned(), Vec::new()),
        "cidr" => Type::Opaque("net.CIDR".to_owned(), Vec::new()),
        _ => match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            Some(("list", inner)) => Type::list(parse(inner)),
            Some(("optional", inner)) => Type::optional(parse(inner)),
            Some(("type", inner)) => Type::Named(Box::new(parse(inner))),
            Some(("map", inner)) => {
                let (key, value) = inner.split_once(',').unwrap_or((inner, "dyn"));
                Type::Map(Box::new(parse(key)), Box::new(parse(value)))
            }
            _ => Type::Param(text.to_owned()),
        },
    }
}

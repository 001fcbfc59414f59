//! What can go wrong with a call, and what kind of trouble vCenter's faults mean.

use machine::provider::{Error, ErrorKind};

use crate::xml::Element;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// vCenter said no: the name of its fault and its words.
    #[error("{name}: {message}")]
    Refused { name: String, message: String, operation: Option<String> },
    /// vCenter did not answer, or something between us and it did.
    #[error("{0}")]
    Unreachable(String),
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
    /// There is nothing to log in with, or it cannot be used.
    #[error("{0}")]
    Login(String),
}

impl Fault {
    /// From an element that holds a fault, as tasks have them.
    pub(crate) fn of_task(error: &Element) -> Self {
        let name = error.at(&["fault"]).and_then(Element::kind).unwrap_or("Fault").to_owned();
        let message = error.text_at(&["localizedMessage"]).unwrap_or_default().to_owned();
        Self::Refused { name, message, operation: None }
    }

    pub(crate) fn is(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { name, .. } if name == wanted)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.is("ManagedObjectNotFound")
    }

    pub(super) fn is_session_over(&self) -> bool {
        self.is("NotAuthenticated")
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused { name, .. } => kind(name),
            Self::Unreachable(_) => ErrorKind::Unreachable,
            Self::Unreadable(_) => ErrorKind::Other,
            Self::Login(_) => ErrorKind::Credentials,
        }
    }

    /// The error that a condition shows: what we were doing and vCenter's words.
    pub(crate) fn error(&self, doing: &str) -> Error {
        let error = Error::new(self.kind(), format!("{doing}: {self}"));
        match self {
            Self::Refused { operation: Some(operation), .. } => error.with_request_id(operation),
            _ => error,
        }
    }
}

/// Only faults that the same spec would always meet are final. What depends on hosts, datastores or other tasks may pass.
fn kind(name: &str) -> ErrorKind {
    match name {
        "InvalidLogin" | "NoPermission" | "NotAuthenticated" | "PasswordExpired" | "RestrictedByAdministrator" => {
            ErrorKind::Credentials
        }
        "ManagedObjectNotFound" | "NotFound" | "FileNotFound" | "HostNotFound" => ErrorKind::NotFound,
        "NoDiskSpace"
        | "NoCompatibleHost"
        | "NoCompatibleDatastore"
        | "NoCompatibleHardAffinityHost"
        | "NoCompatibleSoftAffinityHost"
        | "NoHostSuitableForFtSecondary"
        | "NotEnoughCpus" => ErrorKind::NoCapacity,
        _ if name.starts_with("Insufficient") => ErrorKind::NoCapacity,
        "NotEnoughLicenses" | "LimitExceeded" | "LicenseExpired" | "LicenseAssignmentFailed" => ErrorKind::Quota,
        "InvalidArgument"
        | "InvalidName"
        | "InvalidRequest"
        | "InvalidDeviceSpec"
        | "InvalidDeviceBacking"
        | "InvalidController"
        | "InvalidVmConfig"
        | "TooManyDevices"
        | "FileTooLarge"
        | "NumVirtualCpusNotSupported"
        | "MemorySizeNotSupported"
        | "VirtualHardwareVersionNotSupported"
        | "DeviceNotSupported" => ErrorKind::InvalidSpec,
        "HostNotConnected"
        | "HostCommunication"
        | "HostNotReachable"
        | "HostConnectFault"
        | "Timedout"
        | "InaccessibleDatastore" => ErrorKind::Unreachable,
        _ => ErrorKind::Other,
    }
}

/// Reads the answer to a call, or why there is none. Something else than vCenter, such as a proxy, may have written it.
pub(super) fn read(status: u16, text: &str, method: &str, operation: &str) -> Result<Element, Fault> {
    let parsed = Element::parse(text).ok();
    let body = parsed.as_ref().and_then(|envelope| envelope.at(&["Body"]));
    let Some(body) = body else {
        let words = format!("HTTP status {status} without an answer of vCenter");
        return Err(if status >= 500 || status == 429 { Fault::Unreachable(words) } else { Fault::Unreadable(words) });
    };
    if let Some(fault) = body.at(&["Fault"]) {
        return Err(refusal(fault, operation));
    }
    let answer = body.at(&[&format!("{method}Response")]);
    answer.cloned().ok_or_else(|| Fault::Unreadable(format!("no answer to {method}")))
}

fn refusal(fault: &Element, operation: &str) -> Fault {
    let detail = fault.at(&["detail"]).and_then(|detail| detail.children().first());
    let name = detail.map(|detail| detail.kind().unwrap_or(&detail.name)).unwrap_or_default();
    let name = if name.is_empty() { fault.text_at(&["faultcode"]).unwrap_or("Fault") } else { name };
    let message = fault.text_at(&["faultstring"]).unwrap_or_default().to_owned();
    let name = name.strip_suffix("Fault").filter(|_| detail.is_some_and(|it| it.kind().is_none())).unwrap_or(name);
    Fault::Refused { name: name.to_owned(), message, operation: Some(operation.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soap(fault: &str) -> String {
        format!("<e:Envelope xmlns:e='x'><e:Body><e:Fault>{fault}</e:Fault></e:Body></e:Envelope>")
    }

    #[test]
    fn faults_become_kinds_and_keep_their_names() {
        for (name, kind) in [
            ("InvalidLogin", ErrorKind::Credentials),
            ("NoPermission", ErrorKind::Credentials),
            ("InsufficientMemoryResourcesFault", ErrorKind::NoCapacity),
            ("NoDiskSpace", ErrorKind::NoCapacity),
            ("NotEnoughLicenses", ErrorKind::Quota),
            ("InvalidVmConfig", ErrorKind::InvalidSpec),
            ("ManagedObjectNotFound", ErrorKind::NotFound),
            ("HostNotConnected", ErrorKind::Unreachable),
            ("TaskInProgress", ErrorKind::Other),
        ] {
            let text = soap(&format!(
                "<faultcode>ServerFaultCode</faultcode><faultstring>words</faultstring>\
                 <detail><{name}Fault xmlns:i='y' i:type='{name}'/></detail>"
            ));
            let error = read(500, &text, "M", "op-1").unwrap_err().error("cannot do it");
            assert_eq!((error.kind, error.request_id.as_deref()), (kind, Some("op-1")), "{name}");
            assert_eq!(error.message, format!("cannot do it: {name}: words"));
        }
    }

    #[test]
    fn a_fault_without_a_type_is_known_by_its_element() {
        let text = soap("<faultstring>w</faultstring><detail><RuntimeFaultFault/></detail>");
        assert!(read(500, &text, "M", "o").unwrap_err().is("RuntimeFault"));
        let bare = soap("<faultcode>ServerFaultCode</faultcode><faultstring>w</faultstring>");
        assert!(read(500, &bare, "M", "o").unwrap_err().is("ServerFaultCode"));
    }

    #[test]
    fn garbage_is_told_from_refusals() {
        assert!(matches!(read(502, "<html>Bad Gateway</html>", "M", "o"), Err(Fault::Unreachable(_))));
        assert!(matches!(read(404, "not xml", "M", "o"), Err(Fault::Unreadable(_))));
        let other = "<Envelope><Body><OtherResponse/></Body></Envelope>";
        assert!(matches!(read(200, other, "M", "o"), Err(Fault::Unreadable(_))));
    }
}

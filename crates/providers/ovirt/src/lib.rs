//! Machines on oVirt.

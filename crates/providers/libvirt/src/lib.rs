//! Machines that are libvirt domains.

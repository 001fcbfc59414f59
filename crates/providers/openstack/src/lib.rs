//! Machines on OpenStack.

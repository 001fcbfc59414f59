//! Turns typed configuration into MachineConfig fragments.
//!
//! Templates, KubeletConfigs, ContainerRuntimeConfigs, mirror sets and image policies each become one generated fragment, or a
//! condition that says which field is at fault. Pure: the controllers fetch the objects and write the answers.

//! openraft's types for an application.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;

use openraft::impls::OneshotResponder;
use openraft::{AppData, AppDataResponse, BasicNode, Entry, RaftTypeConfig, TokioRuntime};

use crate::application::Application;
use crate::snapshot::SnapshotDir;
use crate::state_machine::StateMachine;

/// openraft's `RaftTypeConfig` for the requests and responses of the application `A`.
///
/// Numbers are node ids, and addresses are nodes.
pub struct Types<A>(PhantomData<fn() -> A>);

/// The state machine of `A`.
pub type Machine<A> = StateMachine<Types<A>, A>;

impl<A> RaftTypeConfig for Types<A>
where
    A: Application<Request: AppData, Response: AppDataResponse>,
{
    type D = A::Request;
    type R = A::Response;
    type NodeId = u64;
    type Node = BasicNode;
    type Entry = Entry<Self>;
    type SnapshotData = SnapshotDir;
    type AsyncRuntime = TokioRuntime;
    type Responder = OneshotResponder<Self>;
}
// openraft wants these of its types. All values are equal; deriving would ask the same of `A`.

impl<A> fmt::Debug for Types<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Types")
    }
}

impl<A> Clone for Types<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Types<A> {}

impl<A> Default for Types<A> {
    fn default() -> Self {
        Types(PhantomData)
    }
}

impl<A> PartialEq for Types<A> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<A> Eq for Types<A> {}

impl<A> PartialOrd for Types<A> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<A> Ord for Types<A> {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

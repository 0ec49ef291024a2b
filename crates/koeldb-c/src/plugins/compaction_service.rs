//! Services that run compactions in other processes.

#![expect(unsafe_code, reason = "calls functions of the caller")]

use std::ffi::{CStr, CString, OsString, c_char, c_void};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr;

use koeldb::{
    CompactionServiceJobInfo, CompactionServiceJobStatus, CompactionServiceScheduleResponse,
    CompactionServiceWaitResponse,
};

use crate::boundary::Failure;
use crate::functions::callbacks::{
    rocksdb_compaction_service_cancel_awaiting_jobs_cb as Cancel,
    rocksdb_compaction_service_on_installation_cb as OnInstallation,
    rocksdb_compaction_service_schedule_cb as Schedule, rocksdb_compaction_service_wait_cb as Wait,
};
use crate::handle::{self, Handle};
use crate::memory::{self, ToC};
use crate::settings::options::Options;
use crate::text::Text;

use super::callbacks::{Destructor, State, given};
use super::compaction_info::{MANUAL, reason_number};
use super::job_info::getters;

/// Returns the status of a number of C.
fn status_of(number: i32) -> Option<CompactionServiceJobStatus> {
    Some(match number {
        0 => CompactionServiceJobStatus::Success,
        1 => CompactionServiceJobStatus::Failure,
        2 => CompactionServiceJobStatus::Aborted,
        3 => CompactionServiceJobStatus::UseLocal,
        _ => return None,
    })
}

/// Returns the number of a status in C.
fn number_of(status: CompactionServiceJobStatus) -> i32 {
    match status {
        CompactionServiceJobStatus::Success => 0,
        CompactionServiceJobStatus::Failure => 1,
        CompactionServiceJobStatus::Aborted => 2,
        CompactionServiceJobStatus::UseLocal => 3,
    }
}

/// The answer to the request to schedule a job (`rocksdb_compactionservice_scheduleresponse_t`).
pub(crate) struct Response {
    job_id: Text,
    status: CompactionServiceJobStatus,
}

impl Response {
    /// Creates the answer of a job that was scheduled.
    pub(crate) fn new(job_id: Option<&CStr>, status: i32) -> Result<Self, Failure> {
        let status = status_of(status);
        Ok(Response {
            job_id: Text::new(job_id.map_or(&[][..], CStr::to_bytes)),
            status: status.ok_or_else(|| Failure::argument("a status is a number from 0 to 3"))?,
        })
    }

    /// Creates the answer without a job.
    pub(crate) fn of_status(status: i32) -> Result<Self, Failure> {
        Response::new(None, status)
    }

    /// Returns the status; that of a failure for a null pointer.
    pub(crate) fn status(response: Option<&Self>) -> i32 {
        let status = response.map(|response| response.status);
        number_of(status.unwrap_or(CompactionServiceJobStatus::Failure))
    }

    /// Returns the id of the job.
    pub(crate) fn job_id(response: Option<&Self>) -> Option<&[u8]> {
        response.map(|response| response.job_id.bytes())
    }
}

/// The description of a job (`rocksdb_compactionservice_jobinfo_t`).
pub(crate) struct JobInfo {
    info: CompactionServiceJobInfo,
    db_name: Text,
    db_id: Text,
    db_session_id: Text,
    family: Text,
}

impl From<&CompactionServiceJobInfo> for JobInfo {
    fn from(info: &CompactionServiceJobInfo) -> Self {
        JobInfo {
            info: info.clone(),
            db_name: Text::of_path(&info.db_path),
            db_id: Text::new(&info.db_id),
            db_session_id: Text::new(&info.db_session_id),
            family: Text::new(&info.column_family),
        }
    }
}

/// The priority of all compactions, RocksDB's `Env::Priority::LOW`.
const LOW: i32 = 1;

getters!(JobInfo {
    db_name: &[u8] = |of| of.db_name.bytes();
    db_id: &[u8] = |of| of.db_id.bytes();
    db_session_id: &[u8] = |of| of.db_session_id.bytes();
    cf_name: &[u8] = |of| of.family.bytes();
    cf_id: u32 = |of| of.info.column_family_id;
    job_id: u64 = |of| of.info.job_id;
    priority: i32 = |_of| LOW;
    reason: i32 = |of| reason_number(of.info.reason).to_c();
    base_input_level: i32 = |of| of.info.base_input_level.to_c();
    output_level: i32 = |of| of.info.output_level.to_c();
    is_manual: bool = |of| reason_number(of.info.reason) == MANUAL;
    is_bottommost: bool = |of| of.info.is_bottommost;
    is_full: bool = |of| of.info.is_full_compaction;
});

/// A service (`rocksdb_compactionservice_t`).
pub(crate) struct Service {
    state: State,
    schedule: Schedule,
    wait: Wait,
    cancel: Cancel,
    on_installation: OnInstallation,
}

impl koeldb::CompactionService for Service {
    fn schedule(
        &self,
        info: &CompactionServiceJobInfo,
        input: &[u8],
    ) -> CompactionServiceScheduleResponse {
        let Some(schedule) = self.schedule else {
            let status = CompactionServiceJobStatus::UseLocal;
            return CompactionServiceScheduleResponse::Refused(status);
        };
        let info = Handle::new(JobInfo::from(info));
        let (state, bytes) = (self.state.get(), input.as_ptr().cast());
        // SAFETY: the function takes this state and borrows the job, as the caller promises.
        let response = unsafe { schedule(state, &raw const info, bytes, input.len()) };
        // SAFETY: the function gives the response away.
        let response = unsafe { handle::take_optional(response) };
        match response {
            Some(Response {
                job_id,
                status: CompactionServiceJobStatus::Success,
            }) => CompactionServiceScheduleResponse::Scheduled {
                job_id: String::from_utf8_lossy(job_id.bytes()).into_owned(),
            },
            Some(Response { status, .. }) => CompactionServiceScheduleResponse::Refused(status),
            None => CompactionServiceScheduleResponse::Refused(CompactionServiceJobStatus::Failure),
        }
    }

    fn wait(&self, job_id: &str) -> CompactionServiceWaitResponse {
        let Some(wait) = self.wait else {
            return CompactionServiceWaitResponse::Ended(CompactionServiceJobStatus::UseLocal);
        };
        let job_id = CString::new(job_id).unwrap_or_default();
        let (mut bytes, mut length) = (ptr::null_mut::<c_char>(), 0);
        let state = self.state.get();
        // SAFETY: the function takes this state and text, as the caller promises.
        let status = unsafe { wait(state, job_id.as_ptr(), &raw mut bytes, &raw mut length) };
        let result = match bytes.is_null() {
            true => Vec::new(),
            false => {
                // SAFETY: the function has returned so many bytes.
                let result = unsafe { memory::bytes(bytes, length, "result") };
                let result = result.unwrap_or_default().to_vec();
                // SAFETY: the function has given the bytes away, which are from the C heap.
                unsafe { memory::free(bytes.cast()) };
                result
            }
        };
        let failure = CompactionServiceJobStatus::Failure;
        match status_of(status).unwrap_or(failure) {
            CompactionServiceJobStatus::Success => CompactionServiceWaitResponse::Completed {
                output_directory: output_directory(&result),
                result,
            },
            status => CompactionServiceWaitResponse::Ended(status),
        }
    }

    fn cancel_awaiting_jobs(&self) {
        if let Some(cancel) = self.cancel {
            // SAFETY: the function takes this state, as the caller promises.
            unsafe { cancel(self.state.get()) };
        }
    }

    fn on_installation(&self, job_id: &str, status: CompactionServiceJobStatus) {
        if let Some(call) = self.on_installation {
            let job_id = CString::new(job_id).unwrap_or_default();
            // SAFETY: the function takes this state and text, as the caller promises.
            unsafe { call(self.state.get(), job_id.as_ptr(), number_of(status)) };
        }
    }
}

/// Returns the directory that the result of a job names in hexadecimal digits; empty without one.
///
/// A service of C returns the result alone. The primary takes tables from this directory.
fn output_directory(result: &[u8]) -> PathBuf {
    const NAME: &[u8] = b";output_path=";
    let at = result.windows(NAME.len()).position(|window| window == NAME);
    let value = at.map_or(&[][..], |at| &result[at + NAME.len()..]);
    let end = value.iter().position(|byte| *byte == b';');
    let digits = &value[..end.unwrap_or(0)];
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|of| u8::try_from(of).ok())
    };
    let bytes = digits.chunks_exact(2).map(|pair| {
        let (high, low) = (digit(pair[0])?, digit(pair[1])?);
        Some(high << 4 | low)
    });
    let path: Option<Vec<u8>> = bytes.collect();
    PathBuf::from(OsString::from_vec(path.unwrap_or_default()))
}

/// Creates a service. Functions may be null.
pub(crate) fn create(
    state: *mut c_void,
    destructor: Destructor,
    schedule: Schedule,
    _name: *const c_char,
    wait: Wait,
    cancel: Cancel,
    on_installation: OnInstallation,
) -> *mut Handle<Service> {
    handle::give(Service {
        state: State::new(state, destructor),
        schedule,
        wait,
        cancel,
        on_installation,
    })
}

given! {
    /// Gives options a service; null changes nothing.
    set(Options, Service) = |options, service| {
        if let Some(service) = service {
            options.inner.set_compaction_service(service);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_result_is_read() {
        let result = b"\x01\0\0\0status={code=0;};output_path=2F746D702F61;bytes_read=1;";
        assert_eq!(output_directory(result), PathBuf::from("/tmp/a"));
        assert_eq!(output_directory(b"anything"), PathBuf::new());
    }
}

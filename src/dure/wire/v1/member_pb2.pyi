from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_PHASE_UNSPECIFIED: _ClassVar[JobPhase]
    JOB_PHASE_QUEUED: _ClassVar[JobPhase]
    JOB_PHASE_PLACED: _ClassVar[JobPhase]
    JOB_PHASE_RUNNING: _ClassVar[JobPhase]
    JOB_PHASE_UNKNOWN: _ClassVar[JobPhase]
    JOB_PHASE_CANCELLING: _ClassVar[JobPhase]
    JOB_PHASE_SUCCEEDED: _ClassVar[JobPhase]
    JOB_PHASE_FAILED: _ClassVar[JobPhase]
    JOB_PHASE_CANCELLED: _ClassVar[JobPhase]

class Want(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WANT_UNSPECIFIED: _ClassVar[Want]
    WANT_RUN: _ClassVar[Want]
    WANT_RELEASE: _ClassVar[Want]

class RunPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_PHASE_UNSPECIFIED: _ClassVar[RunPhase]
    RUN_PHASE_WAITING: _ClassVar[RunPhase]
    RUN_PHASE_STARTING: _ClassVar[RunPhase]
    RUN_PHASE_RUNNING: _ClassVar[RunPhase]
    RUN_PHASE_RELEASING: _ClassVar[RunPhase]
    RUN_PHASE_GONE: _ClassVar[RunPhase]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_SUCCEEDED: _ClassVar[Outcome]
    OUTCOME_FAILED: _ClassVar[Outcome]
    OUTCOME_STOPPED: _ClassVar[Outcome]
    OUTCOME_DISPLACED: _ClassVar[Outcome]
    OUTCOME_TURNED_DOWN: _ClassVar[Outcome]
    OUTCOME_FENCED: _ClassVar[Outcome]

class PartitionPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PARTITION_PHASE_UNSPECIFIED: _ClassVar[PartitionPhase]
    PARTITION_PHASE_ASKED: _ClassVar[PartitionPhase]
    PARTITION_PHASE_UNDER_WAY: _ClassVar[PartitionPhase]
    PARTITION_PHASE_DONE: _ClassVar[PartitionPhase]
    PARTITION_PHASE_REFUSED: _ClassVar[PartitionPhase]
    PARTITION_PHASE_FAILED: _ClassVar[PartitionPhase]

class VirtualTier(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VIRTUAL_TIER_UNSPECIFIED: _ClassVar[VirtualTier]
    VIRTUAL_TIER_SCOPED: _ClassVar[VirtualTier]
    VIRTUAL_TIER_DEDICATED: _ClassVar[VirtualTier]

class SpacePhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SPACE_PHASE_UNSPECIFIED: _ClassVar[SpacePhase]
    SPACE_PHASE_ASKED: _ClassVar[SpacePhase]
    SPACE_PHASE_READY: _ClassVar[SpacePhase]
    SPACE_PHASE_REFUSED: _ClassVar[SpacePhase]
    SPACE_PHASE_LEAVING: _ClassVar[SpacePhase]
    SPACE_PHASE_GONE: _ClassVar[SpacePhase]

class ThingKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    THING_KIND_UNSPECIFIED: _ClassVar[ThingKind]
    THING_KIND_SECRET: _ClassVar[ThingKind]
    THING_KIND_CONFIG_MAP: _ClassVar[ThingKind]
    THING_KIND_VOLUME: _ClassVar[ThingKind]

class WorkloadKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORKLOAD_KIND_UNSPECIFIED: _ClassVar[WorkloadKind]
    WORKLOAD_KIND_TRAINING: _ClassVar[WorkloadKind]
    WORKLOAD_KIND_BATCH: _ClassVar[WorkloadKind]
    WORKLOAD_KIND_SERVING: _ClassVar[WorkloadKind]

class WhenCutOff(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WHEN_CUT_OFF_UNSPECIFIED: _ClassVar[WhenCutOff]
    WHEN_CUT_OFF_WAIT: _ClassVar[WhenCutOff]
    WHEN_CUT_OFF_REPLACE: _ClassVar[WhenCutOff]
    WHEN_CUT_OFF_FENCE_AFTER: _ClassVar[WhenCutOff]

class DataType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATA_TYPE_UNSPECIFIED: _ClassVar[DataType]
    DATA_TYPE_FP32: _ClassVar[DataType]
    DATA_TYPE_TF32: _ClassVar[DataType]
    DATA_TYPE_FP16: _ClassVar[DataType]
    DATA_TYPE_BF16: _ClassVar[DataType]
    DATA_TYPE_FP8: _ClassVar[DataType]
    DATA_TYPE_INT8: _ClassVar[DataType]
    DATA_TYPE_INT4: _ClassVar[DataType]

class ShareMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SHARE_MODE_UNSPECIFIED: _ClassVar[ShareMode]
    SHARE_MODE_WHOLE: _ClassVar[ShareMode]
    SHARE_MODE_MIG: _ClassVar[ShareMode]
    SHARE_MODE_MPS: _ClassVar[ShareMode]
    SHARE_MODE_TIME_SLICE: _ClassVar[ShareMode]
    SHARE_MODE_CORE_GROUP: _ClassVar[ShareMode]
    SHARE_MODE_QUEUE: _ClassVar[ShareMode]

class ClusterClass(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLUSTER_CLASS_UNSPECIFIED: _ClassVar[ClusterClass]
    CLUSTER_CLASS_CLOUD: _ClassVar[ClusterClass]
    CLUSTER_CLASS_ON_PREM: _ClassVar[ClusterClass]
    CLUSTER_CLASS_EDGE: _ClassVar[ClusterClass]
JOB_PHASE_UNSPECIFIED: JobPhase
JOB_PHASE_QUEUED: JobPhase
JOB_PHASE_PLACED: JobPhase
JOB_PHASE_RUNNING: JobPhase
JOB_PHASE_UNKNOWN: JobPhase
JOB_PHASE_CANCELLING: JobPhase
JOB_PHASE_SUCCEEDED: JobPhase
JOB_PHASE_FAILED: JobPhase
JOB_PHASE_CANCELLED: JobPhase
WANT_UNSPECIFIED: Want
WANT_RUN: Want
WANT_RELEASE: Want
RUN_PHASE_UNSPECIFIED: RunPhase
RUN_PHASE_WAITING: RunPhase
RUN_PHASE_STARTING: RunPhase
RUN_PHASE_RUNNING: RunPhase
RUN_PHASE_RELEASING: RunPhase
RUN_PHASE_GONE: RunPhase
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_SUCCEEDED: Outcome
OUTCOME_FAILED: Outcome
OUTCOME_STOPPED: Outcome
OUTCOME_DISPLACED: Outcome
OUTCOME_TURNED_DOWN: Outcome
OUTCOME_FENCED: Outcome
PARTITION_PHASE_UNSPECIFIED: PartitionPhase
PARTITION_PHASE_ASKED: PartitionPhase
PARTITION_PHASE_UNDER_WAY: PartitionPhase
PARTITION_PHASE_DONE: PartitionPhase
PARTITION_PHASE_REFUSED: PartitionPhase
PARTITION_PHASE_FAILED: PartitionPhase
VIRTUAL_TIER_UNSPECIFIED: VirtualTier
VIRTUAL_TIER_SCOPED: VirtualTier
VIRTUAL_TIER_DEDICATED: VirtualTier
SPACE_PHASE_UNSPECIFIED: SpacePhase
SPACE_PHASE_ASKED: SpacePhase
SPACE_PHASE_READY: SpacePhase
SPACE_PHASE_REFUSED: SpacePhase
SPACE_PHASE_LEAVING: SpacePhase
SPACE_PHASE_GONE: SpacePhase
THING_KIND_UNSPECIFIED: ThingKind
THING_KIND_SECRET: ThingKind
THING_KIND_CONFIG_MAP: ThingKind
THING_KIND_VOLUME: ThingKind
WORKLOAD_KIND_UNSPECIFIED: WorkloadKind
WORKLOAD_KIND_TRAINING: WorkloadKind
WORKLOAD_KIND_BATCH: WorkloadKind
WORKLOAD_KIND_SERVING: WorkloadKind
WHEN_CUT_OFF_UNSPECIFIED: WhenCutOff
WHEN_CUT_OFF_WAIT: WhenCutOff
WHEN_CUT_OFF_REPLACE: WhenCutOff
WHEN_CUT_OFF_FENCE_AFTER: WhenCutOff
DATA_TYPE_UNSPECIFIED: DataType
DATA_TYPE_FP32: DataType
DATA_TYPE_TF32: DataType
DATA_TYPE_FP16: DataType
DATA_TYPE_BF16: DataType
DATA_TYPE_FP8: DataType
DATA_TYPE_INT8: DataType
DATA_TYPE_INT4: DataType
SHARE_MODE_UNSPECIFIED: ShareMode
SHARE_MODE_WHOLE: ShareMode
SHARE_MODE_MIG: ShareMode
SHARE_MODE_MPS: ShareMode
SHARE_MODE_TIME_SLICE: ShareMode
SHARE_MODE_CORE_GROUP: ShareMode
SHARE_MODE_QUEUE: ShareMode
CLUSTER_CLASS_UNSPECIFIED: ClusterClass
CLUSTER_CLASS_CLOUD: ClusterClass
CLUSTER_CLASS_ON_PREM: ClusterClass
CLUSTER_CLASS_EDGE: ClusterClass

class FromMember(_message.Message):
    __slots__ = ("hello", "report", "answer", "log_chunk", "ping", "wishes", "access_answer")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    LOG_CHUNK_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    WISHES_FIELD_NUMBER: _ClassVar[int]
    ACCESS_ANSWER_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    report: Report
    answer: PlanAnswer
    log_chunk: LogChunk
    ping: Ping
    wishes: Wishes
    access_answer: AccessAnswer
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., answer: _Optional[_Union[PlanAnswer, _Mapping]] = ..., log_chunk: _Optional[_Union[LogChunk, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., wishes: _Optional[_Union[Wishes, _Mapping]] = ..., access_answer: _Optional[_Union[AccessAnswer, _Mapping]] = ...) -> None: ...

class ToMember(_message.Message):
    __slots__ = ("welcome", "plan", "ack", "log_request", "log_cancel", "ping", "goodbye", "standings", "signals", "access_request", "routes")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    LOG_REQUEST_FIELD_NUMBER: _ClassVar[int]
    LOG_CANCEL_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    STANDINGS_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    ACCESS_REQUEST_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    plan: PlanPart
    ack: Ack
    log_request: LogRequest
    log_cancel: LogCancel
    ping: Ping
    goodbye: Goodbye
    standings: Standings
    signals: Signals
    access_request: AccessRequest
    routes: Routes
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., plan: _Optional[_Union[PlanPart, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., log_request: _Optional[_Union[LogRequest, _Mapping]] = ..., log_cancel: _Optional[_Union[LogCancel, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., standings: _Optional[_Union[Standings, _Mapping]] = ..., signals: _Optional[_Union[Signals, _Mapping]] = ..., access_request: _Optional[_Union[AccessRequest, _Mapping]] = ..., routes: _Optional[_Union[Routes, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("cluster", "kind", "incarnation", "version", "epoch", "revision", "takes_signals", "takes_routes")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TAKES_SIGNALS_FIELD_NUMBER: _ClassVar[int]
    TAKES_ROUTES_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    kind: str
    incarnation: str
    version: str
    epoch: int
    revision: int
    takes_signals: bool
    takes_routes: bool
    def __init__(self, cluster: _Optional[str] = ..., kind: _Optional[str] = ..., incarnation: _Optional[str] = ..., version: _Optional[str] = ..., epoch: _Optional[int] = ..., revision: _Optional[int] = ..., takes_signals: _Optional[bool] = ..., takes_routes: _Optional[bool] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("version", "heard", "now_ns", "silence_s", "takes_wishes")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    NOW_NS_FIELD_NUMBER: _ClassVar[int]
    SILENCE_S_FIELD_NUMBER: _ClassVar[int]
    TAKES_WISHES_FIELD_NUMBER: _ClassVar[int]
    version: str
    heard: int
    now_ns: int
    silence_s: float
    takes_wishes: bool
    def __init__(self, version: _Optional[str] = ..., heard: _Optional[int] = ..., now_ns: _Optional[int] = ..., silence_s: _Optional[float] = ..., takes_wishes: _Optional[bool] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Ack(_message.Message):
    __slots__ = ("seq",)
    SEQ_FIELD_NUMBER: _ClassVar[int]
    seq: int
    def __init__(self, seq: _Optional[int] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("why", "retry_elsewhere")
    WHY_FIELD_NUMBER: _ClassVar[int]
    RETRY_ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    why: str
    retry_elsewhere: bool
    def __init__(self, why: _Optional[str] = ..., retry_elsewhere: _Optional[bool] = ...) -> None: ...

class LogRequest(_message.Message):
    __slots__ = ("id", "key", "index", "follow", "tail")
    ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    id: int
    key: AttemptKey
    index: int
    follow: bool
    tail: int
    def __init__(self, id: _Optional[int] = ..., key: _Optional[_Union[AttemptKey, _Mapping]] = ..., index: _Optional[int] = ..., follow: _Optional[bool] = ..., tail: _Optional[int] = ...) -> None: ...

class LogCancel(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("id", "data", "end", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: int
    data: bytes
    end: bool
    error: str
    def __init__(self, id: _Optional[int] = ..., data: _Optional[bytes] = ..., end: _Optional[bool] = ..., error: _Optional[str] = ...) -> None: ...

class AccessRequest(_message.Message):
    __slots__ = ("id", "name", "for_s")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FOR_S_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: str
    for_s: int
    def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., for_s: _Optional[int] = ...) -> None: ...

class AccessAnswer(_message.Message):
    __slots__ = ("id", "token", "url", "authority", "namespace", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    AUTHORITY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: int
    token: str
    url: str
    authority: str
    namespace: str
    error: str
    def __init__(self, id: _Optional[int] = ..., token: _Optional[str] = ..., url: _Optional[str] = ..., authority: _Optional[str] = ..., namespace: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class Wish(_message.Message):
    __slots__ = ("uid", "generation", "namespace", "name", "document", "withdrawn")
    UID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    uid: str
    generation: int
    namespace: str
    name: str
    document: str
    withdrawn: bool
    def __init__(self, uid: _Optional[str] = ..., generation: _Optional[int] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., document: _Optional[str] = ..., withdrawn: _Optional[bool] = ...) -> None: ...

class Wishes(_message.Message):
    __slots__ = ("wishes",)
    WISHES_FIELD_NUMBER: _ClassVar[int]
    wishes: _containers.RepeatedCompositeFieldContainer[Wish]
    def __init__(self, wishes: _Optional[_Iterable[_Union[Wish, _Mapping]]] = ...) -> None: ...

class WishRefusal(_message.Message):
    __slots__ = ("reason", "field", "what", "remedy", "final")
    REASON_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    REMEDY_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    reason: str
    field: str
    what: str
    remedy: str
    final: bool
    def __init__(self, reason: _Optional[str] = ..., field: _Optional[str] = ..., what: _Optional[str] = ..., remedy: _Optional[str] = ..., final: _Optional[bool] = ...) -> None: ...

class Standing(_message.Message):
    __slots__ = ("uid", "generation", "job", "refusal", "withdrawn", "phase", "suspended", "attempt", "cluster", "slice", "cost_per_hour", "currency", "g_co2_per_hour", "why")
    UID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    COST_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    CURRENCY_FIELD_NUMBER: _ClassVar[int]
    G_CO2_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    uid: str
    generation: int
    job: str
    refusal: WishRefusal
    withdrawn: bool
    phase: JobPhase
    suspended: bool
    attempt: int
    cluster: str
    slice: str
    cost_per_hour: float
    currency: str
    g_co2_per_hour: float
    why: str
    def __init__(self, uid: _Optional[str] = ..., generation: _Optional[int] = ..., job: _Optional[str] = ..., refusal: _Optional[_Union[WishRefusal, _Mapping]] = ..., withdrawn: _Optional[bool] = ..., phase: _Optional[_Union[JobPhase, str]] = ..., suspended: _Optional[bool] = ..., attempt: _Optional[int] = ..., cluster: _Optional[str] = ..., slice: _Optional[str] = ..., cost_per_hour: _Optional[float] = ..., currency: _Optional[str] = ..., g_co2_per_hour: _Optional[float] = ..., why: _Optional[str] = ...) -> None: ...

class Standings(_message.Message):
    __slots__ = ("standings",)
    STANDINGS_FIELD_NUMBER: _ClassVar[int]
    standings: _containers.RepeatedCompositeFieldContainer[Standing]
    def __init__(self, standings: _Optional[_Iterable[_Union[Standing, _Mapping]]] = ...) -> None: ...

class RouteBackend(_message.Message):
    __slots__ = ("attempt", "address", "weight")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    address: str
    weight: int
    def __init__(self, attempt: _Optional[int] = ..., address: _Optional[str] = ..., weight: _Optional[int] = ...) -> None: ...

class ServiceRoute(_message.Message):
    __slots__ = ("job", "name", "namespace", "port", "backends", "ended")
    JOB_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    BACKENDS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    job: str
    name: str
    namespace: str
    port: int
    backends: _containers.RepeatedCompositeFieldContainer[RouteBackend]
    ended: bool
    def __init__(self, job: _Optional[str] = ..., name: _Optional[str] = ..., namespace: _Optional[str] = ..., port: _Optional[int] = ..., backends: _Optional[_Iterable[_Union[RouteBackend, _Mapping]]] = ..., ended: _Optional[bool] = ...) -> None: ...

class Routes(_message.Message):
    __slots__ = ("services", "whole")
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    services: _containers.RepeatedCompositeFieldContainer[ServiceRoute]
    whole: bool
    def __init__(self, services: _Optional[_Iterable[_Union[ServiceRoute, _Mapping]]] = ..., whole: _Optional[bool] = ...) -> None: ...

class LoadSignal(_message.Message):
    __slots__ = ("workload", "source", "at_ns", "until_ns", "requests_per_s", "queue_length", "latency_ms")
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_NS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_PER_S_FIELD_NUMBER: _ClassVar[int]
    QUEUE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    workload: str
    source: str
    at_ns: int
    until_ns: int
    requests_per_s: float
    queue_length: float
    latency_ms: float
    def __init__(self, workload: _Optional[str] = ..., source: _Optional[str] = ..., at_ns: _Optional[int] = ..., until_ns: _Optional[int] = ..., requests_per_s: _Optional[float] = ..., queue_length: _Optional[float] = ..., latency_ms: _Optional[float] = ...) -> None: ...

class Signals(_message.Message):
    __slots__ = ("signals",)
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    signals: _containers.RepeatedCompositeFieldContainer[LoadSignal]
    def __init__(self, signals: _Optional[_Iterable[_Union[LoadSignal, _Mapping]]] = ...) -> None: ...

class PlanPart(_message.Message):
    __slots__ = ("epoch", "revision", "base", "part", "last", "desired", "removed", "surroundings")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    DESIRED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    SURROUNDINGS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    revision: int
    base: int
    part: int
    last: bool
    desired: _containers.RepeatedCompositeFieldContainer[Desired]
    removed: _containers.RepeatedCompositeFieldContainer[AttemptKey]
    surroundings: Surroundings
    def __init__(self, epoch: _Optional[int] = ..., revision: _Optional[int] = ..., base: _Optional[int] = ..., part: _Optional[int] = ..., last: _Optional[bool] = ..., desired: _Optional[_Iterable[_Union[Desired, _Mapping]]] = ..., removed: _Optional[_Iterable[_Union[AttemptKey, _Mapping]]] = ..., surroundings: _Optional[_Union[Surroundings, _Mapping]] = ...) -> None: ...

class AttemptKey(_message.Message):
    __slots__ = ("job", "attempt")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    job: str
    attempt: int
    def __init__(self, job: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class Desired(_message.Message):
    __slots__ = ("order", "program", "namespace", "want", "why", "fence_after_s", "checkpoint", "gentle")
    ORDER_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    FENCE_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    GENTLE_FIELD_NUMBER: _ClassVar[int]
    order: Order
    program: Program
    namespace: str
    want: Want
    why: str
    fence_after_s: float
    checkpoint: int
    gentle: bool
    def __init__(self, order: _Optional[_Union[Order, _Mapping]] = ..., program: _Optional[_Union[Program, _Mapping]] = ..., namespace: _Optional[str] = ..., want: _Optional[_Union[Want, str]] = ..., why: _Optional[str] = ..., fence_after_s: _Optional[float] = ..., checkpoint: _Optional[int] = ..., gentle: _Optional[bool] = ...) -> None: ...

class Surroundings(_message.Message):
    __slots__ = ("cluster", "policy", "tenants", "pools", "allotments", "round_trip_ms", "partitions", "virtual")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    ALLOTMENTS_FIELD_NUMBER: _ClassVar[int]
    ROUND_TRIP_MS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_FIELD_NUMBER: _ClassVar[int]
    cluster: Cluster
    policy: FleetPolicy
    tenants: _containers.RepeatedCompositeFieldContainer[FleetTenant]
    pools: _containers.RepeatedCompositeFieldContainer[VNodePool]
    allotments: _containers.RepeatedCompositeFieldContainer[Allotment]
    round_trip_ms: float
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    virtual: _containers.RepeatedCompositeFieldContainer[VirtualCluster]
    def __init__(self, cluster: _Optional[_Union[Cluster, _Mapping]] = ..., policy: _Optional[_Union[FleetPolicy, _Mapping]] = ..., tenants: _Optional[_Iterable[_Union[FleetTenant, _Mapping]]] = ..., pools: _Optional[_Iterable[_Union[VNodePool, _Mapping]]] = ..., allotments: _Optional[_Iterable[_Union[Allotment, _Mapping]]] = ..., round_trip_ms: _Optional[float] = ..., partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ..., virtual: _Optional[_Iterable[_Union[VirtualCluster, _Mapping]]] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("node", "layout", "number", "drain")
    NODE_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    node: str
    layout: str
    number: int
    drain: bool
    def __init__(self, node: _Optional[str] = ..., layout: _Optional[str] = ..., number: _Optional[int] = ..., drain: _Optional[bool] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("key", "why")
    KEY_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    key: AttemptKey
    why: str
    def __init__(self, key: _Optional[_Union[AttemptKey, _Mapping]] = ..., why: _Optional[str] = ...) -> None: ...

class PlanAnswer(_message.Message):
    __slots__ = ("epoch", "revision", "taken", "why", "accepted", "refused")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    revision: int
    taken: bool
    why: str
    accepted: _containers.RepeatedCompositeFieldContainer[AttemptKey]
    refused: _containers.RepeatedCompositeFieldContainer[Refusal]
    def __init__(self, epoch: _Optional[int] = ..., revision: _Optional[int] = ..., taken: _Optional[bool] = ..., why: _Optional[str] = ..., accepted: _Optional[_Iterable[_Union[AttemptKey, _Mapping]]] = ..., refused: _Optional[_Iterable[_Union[Refusal, _Mapping]]] = ...) -> None: ...

class Placement(_message.Message):
    __slots__ = ("node", "devices", "masks", "template", "compute_milli")
    NODE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    MASKS_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_MILLI_FIELD_NUMBER: _ClassVar[int]
    node: int
    devices: _containers.RepeatedScalarFieldContainer[int]
    masks: _containers.RepeatedScalarFieldContainer[int]
    template: str
    compute_milli: int
    def __init__(self, node: _Optional[int] = ..., devices: _Optional[_Iterable[int]] = ..., masks: _Optional[_Iterable[int]] = ..., template: _Optional[str] = ..., compute_milli: _Optional[int] = ...) -> None: ...

class InstanceStatus(_message.Message):
    __slots__ = ("index", "node", "name", "placement", "ready", "address", "standby")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STANDBY_FIELD_NUMBER: _ClassVar[int]
    index: int
    node: str
    name: str
    placement: Placement
    ready: bool
    address: str
    standby: bool
    def __init__(self, index: _Optional[int] = ..., node: _Optional[str] = ..., name: _Optional[str] = ..., placement: _Optional[_Union[Placement, _Mapping]] = ..., ready: _Optional[bool] = ..., address: _Optional[str] = ..., standby: _Optional[bool] = ...) -> None: ...

class Sizing(_message.Message):
    __slots__ = ("serving", "standby", "level", "why", "changed_ns", "requests_per_s", "queue_length", "latency_ms", "heard_ns")
    SERVING_FIELD_NUMBER: _ClassVar[int]
    STANDBY_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    CHANGED_NS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_PER_S_FIELD_NUMBER: _ClassVar[int]
    QUEUE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    HEARD_NS_FIELD_NUMBER: _ClassVar[int]
    serving: int
    standby: int
    level: int
    why: str
    changed_ns: int
    requests_per_s: float
    queue_length: float
    latency_ms: float
    heard_ns: int
    def __init__(self, serving: _Optional[int] = ..., standby: _Optional[int] = ..., level: _Optional[int] = ..., why: _Optional[str] = ..., changed_ns: _Optional[int] = ..., requests_per_s: _Optional[float] = ..., queue_length: _Optional[float] = ..., latency_ms: _Optional[float] = ..., heard_ns: _Optional[int] = ...) -> None: ...

class AttemptStatus(_message.Message):
    __slots__ = ("key", "phase", "outcome", "why", "instances", "done_share", "saved_share", "started_ns", "ended_ns", "exit_code", "sizing", "checkpointed")
    KEY_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    DONE_SHARE_FIELD_NUMBER: _ClassVar[int]
    SAVED_SHARE_FIELD_NUMBER: _ClassVar[int]
    STARTED_NS_FIELD_NUMBER: _ClassVar[int]
    ENDED_NS_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIZING_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTED_FIELD_NUMBER: _ClassVar[int]
    key: AttemptKey
    phase: RunPhase
    outcome: Outcome
    why: str
    instances: _containers.RepeatedCompositeFieldContainer[InstanceStatus]
    done_share: float
    saved_share: float
    started_ns: int
    ended_ns: int
    exit_code: int
    sizing: Sizing
    checkpointed: int
    def __init__(self, key: _Optional[_Union[AttemptKey, _Mapping]] = ..., phase: _Optional[_Union[RunPhase, str]] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., why: _Optional[str] = ..., instances: _Optional[_Iterable[_Union[InstanceStatus, _Mapping]]] = ..., done_share: _Optional[float] = ..., saved_share: _Optional[float] = ..., started_ns: _Optional[int] = ..., ended_ns: _Optional[int] = ..., exit_code: _Optional[int] = ..., sizing: _Optional[_Union[Sizing, _Mapping]] = ..., checkpointed: _Optional[int] = ...) -> None: ...

class NodeFact(_message.Message):
    __slots__ = ("name", "group", "up", "why")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    name: str
    group: str
    up: bool
    why: str
    def __init__(self, name: _Optional[str] = ..., group: _Optional[str] = ..., up: _Optional[bool] = ..., why: _Optional[str] = ...) -> None: ...

class TenantThing(_message.Message):
    __slots__ = ("tenant", "thing")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    THING_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    thing: Thing
    def __init__(self, tenant: _Optional[str] = ..., thing: _Optional[_Union[Thing, _Mapping]] = ...) -> None: ...

class Inventory(_message.Message):
    __slots__ = ("groups", "nodes", "features", "things")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    THINGS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[NodeGroup]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeFact]
    features: _containers.RepeatedScalarFieldContainer[str]
    things: _containers.RepeatedCompositeFieldContainer[TenantThing]
    def __init__(self, groups: _Optional[_Iterable[_Union[NodeGroup, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[NodeFact, _Mapping]]] = ..., features: _Optional[_Iterable[str]] = ..., things: _Optional[_Iterable[_Union[TenantThing, _Mapping]]] = ...) -> None: ...

class SiteSummary(_message.Message):
    __slots__ = ("site", "profile", "nodes", "nodes_in_use", "devices", "free_devices", "free_on_used_nodes", "free_compute_milli", "free_memory_bytes", "free_cpu_milli", "free_host_memory_bytes", "largest_node_free", "free_slices", "waiting_devices", "fragmentation", "revision", "free_bandwidth_milli", "nodes_by_free")
    SITE_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODES_IN_USE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    FREE_DEVICES_FIELD_NUMBER: _ClassVar[int]
    FREE_ON_USED_NODES_FIELD_NUMBER: _ClassVar[int]
    FREE_COMPUTE_MILLI_FIELD_NUMBER: _ClassVar[int]
    FREE_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    FREE_CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    FREE_HOST_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    LARGEST_NODE_FREE_FIELD_NUMBER: _ClassVar[int]
    FREE_SLICES_FIELD_NUMBER: _ClassVar[int]
    WAITING_DEVICES_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTATION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    FREE_BANDWIDTH_MILLI_FIELD_NUMBER: _ClassVar[int]
    NODES_BY_FREE_FIELD_NUMBER: _ClassVar[int]
    site: Site
    profile: str
    nodes: int
    nodes_in_use: int
    devices: int
    free_devices: int
    free_on_used_nodes: int
    free_compute_milli: int
    free_memory_bytes: int
    free_cpu_milli: int
    free_host_memory_bytes: int
    largest_node_free: int
    free_slices: _containers.RepeatedCompositeFieldContainer[Count]
    waiting_devices: int
    fragmentation: float
    revision: int
    free_bandwidth_milli: int
    nodes_by_free: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, site: _Optional[_Union[Site, _Mapping]] = ..., profile: _Optional[str] = ..., nodes: _Optional[int] = ..., nodes_in_use: _Optional[int] = ..., devices: _Optional[int] = ..., free_devices: _Optional[int] = ..., free_on_used_nodes: _Optional[int] = ..., free_compute_milli: _Optional[int] = ..., free_memory_bytes: _Optional[int] = ..., free_cpu_milli: _Optional[int] = ..., free_host_memory_bytes: _Optional[int] = ..., largest_node_free: _Optional[int] = ..., free_slices: _Optional[_Iterable[_Union[Count, _Mapping]]] = ..., waiting_devices: _Optional[int] = ..., fragmentation: _Optional[float] = ..., revision: _Optional[int] = ..., free_bandwidth_milli: _Optional[int] = ..., nodes_by_free: _Optional[_Iterable[int]] = ...) -> None: ...

class ServiceLoad(_message.Message):
    __slots__ = ("workload", "requests_per_s", "replicas", "violated_share")
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_PER_S_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    VIOLATED_SHARE_FIELD_NUMBER: _ClassVar[int]
    workload: str
    requests_per_s: float
    replicas: int
    violated_share: float
    def __init__(self, workload: _Optional[str] = ..., requests_per_s: _Optional[float] = ..., replicas: _Optional[int] = ..., violated_share: _Optional[float] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("key", "memory_bytes", "compute_share", "device_us", "since_ns", "until_ns")
    KEY_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_SHARE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_US_FIELD_NUMBER: _ClassVar[int]
    SINCE_NS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_NS_FIELD_NUMBER: _ClassVar[int]
    key: AttemptKey
    memory_bytes: int
    compute_share: float
    device_us: int
    since_ns: int
    until_ns: int
    def __init__(self, key: _Optional[_Union[AttemptKey, _Mapping]] = ..., memory_bytes: _Optional[int] = ..., compute_share: _Optional[float] = ..., device_us: _Optional[int] = ..., since_ns: _Optional[int] = ..., until_ns: _Optional[int] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("seq", "at_ns", "whole", "attempts", "sites", "inventory", "loads", "usage", "warnings", "partitions", "spaces")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SITES_FIELD_NUMBER: _ClassVar[int]
    INVENTORY_FIELD_NUMBER: _ClassVar[int]
    LOADS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SPACES_FIELD_NUMBER: _ClassVar[int]
    seq: int
    at_ns: int
    whole: bool
    attempts: _containers.RepeatedCompositeFieldContainer[AttemptStatus]
    sites: _containers.RepeatedCompositeFieldContainer[SiteSummary]
    inventory: Inventory
    loads: _containers.RepeatedCompositeFieldContainer[ServiceLoad]
    usage: _containers.RepeatedCompositeFieldContainer[Usage]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionStatus]
    spaces: _containers.RepeatedCompositeFieldContainer[SpaceStatus]
    def __init__(self, seq: _Optional[int] = ..., at_ns: _Optional[int] = ..., whole: _Optional[bool] = ..., attempts: _Optional[_Iterable[_Union[AttemptStatus, _Mapping]]] = ..., sites: _Optional[_Iterable[_Union[SiteSummary, _Mapping]]] = ..., inventory: _Optional[_Union[Inventory, _Mapping]] = ..., loads: _Optional[_Iterable[_Union[ServiceLoad, _Mapping]]] = ..., usage: _Optional[_Iterable[_Union[Usage, _Mapping]]] = ..., warnings: _Optional[_Iterable[str]] = ..., partitions: _Optional[_Iterable[_Union[PartitionStatus, _Mapping]]] = ..., spaces: _Optional[_Iterable[_Union[SpaceStatus, _Mapping]]] = ...) -> None: ...

class PartitionStatus(_message.Message):
    __slots__ = ("node", "number", "phase", "why")
    NODE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    node: str
    number: int
    phase: PartitionPhase
    why: str
    def __init__(self, node: _Optional[str] = ..., number: _Optional[int] = ..., phase: _Optional[_Union[PartitionPhase, str]] = ..., why: _Optional[str] = ...) -> None: ...

class VirtualCluster(_message.Message):
    __slots__ = ("name", "tenant", "tier", "number", "namespace", "pools", "quota", "defaults", "isolated", "leaving", "forced")
    class QuotaEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class DefaultsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    ISOLATED_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    FORCED_FIELD_NUMBER: _ClassVar[int]
    name: str
    tenant: str
    tier: VirtualTier
    number: int
    namespace: str
    pools: _containers.RepeatedScalarFieldContainer[str]
    quota: _containers.ScalarMap[str, str]
    defaults: _containers.ScalarMap[str, str]
    isolated: bool
    leaving: bool
    forced: bool
    def __init__(self, name: _Optional[str] = ..., tenant: _Optional[str] = ..., tier: _Optional[_Union[VirtualTier, str]] = ..., number: _Optional[int] = ..., namespace: _Optional[str] = ..., pools: _Optional[_Iterable[str]] = ..., quota: _Optional[_Mapping[str, str]] = ..., defaults: _Optional[_Mapping[str, str]] = ..., isolated: _Optional[bool] = ..., leaving: _Optional[bool] = ..., forced: _Optional[bool] = ...) -> None: ...

class SpaceStatus(_message.Message):
    __slots__ = ("name", "number", "phase", "why", "pods")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    name: str
    number: int
    phase: SpacePhase
    why: str
    pods: int
    def __init__(self, name: _Optional[str] = ..., number: _Optional[int] = ..., phase: _Optional[_Union[SpacePhase, str]] = ..., why: _Optional[str] = ..., pods: _Optional[int] = ...) -> None: ...

class Thing(_message.Message):
    __slots__ = ("kind", "name")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    kind: ThingKind
    name: str
    def __init__(self, kind: _Optional[_Union[ThingKind, str]] = ..., name: _Optional[str] = ...) -> None: ...

class Mount(_message.Message):
    __slots__ = ("thing", "path", "read_only")
    THING_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    thing: Thing
    path: str
    read_only: bool
    def __init__(self, thing: _Optional[_Union[Thing, _Mapping]] = ..., path: _Optional[str] = ..., read_only: _Optional[bool] = ...) -> None: ...

class Program(_message.Message):
    __slots__ = ("image", "command", "args", "env", "env_from", "mounts", "working_dir", "service_account", "grace_s", "port", "labels", "annotations", "pod")
    class EnvEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    ENV_FROM_FIELD_NUMBER: _ClassVar[int]
    MOUNTS_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIR_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    image: str
    command: _containers.RepeatedScalarFieldContainer[str]
    args: _containers.RepeatedScalarFieldContainer[str]
    env: _containers.ScalarMap[str, str]
    env_from: _containers.RepeatedCompositeFieldContainer[Thing]
    mounts: _containers.RepeatedCompositeFieldContainer[Mount]
    working_dir: str
    service_account: str
    grace_s: float
    port: int
    labels: _containers.ScalarMap[str, str]
    annotations: _containers.ScalarMap[str, str]
    pod: str
    def __init__(self, image: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., args: _Optional[_Iterable[str]] = ..., env: _Optional[_Mapping[str, str]] = ..., env_from: _Optional[_Iterable[_Union[Thing, _Mapping]]] = ..., mounts: _Optional[_Iterable[_Union[Mount, _Mapping]]] = ..., working_dir: _Optional[str] = ..., service_account: _Optional[str] = ..., grace_s: _Optional[float] = ..., port: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., annotations: _Optional[_Mapping[str, str]] = ..., pod: _Optional[str] = ...) -> None: ...

class Figure(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: float
    def __init__(self, name: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...

class Count(_message.Message):
    __slots__ = ("name", "count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    count: int
    def __init__(self, name: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class Names(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class Site(_message.Message):
    __slots__ = ("cluster", "group")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    group: str
    def __init__(self, cluster: _Optional[str] = ..., group: _Optional[str] = ...) -> None: ...

class Alternative(_message.Message):
    __slots__ = ("site", "start_ns", "total", "why")
    SITE_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    site: Site
    start_ns: int
    total: float
    why: str
    def __init__(self, site: _Optional[_Union[Site, _Mapping]] = ..., start_ns: _Optional[int] = ..., total: _Optional[float] = ..., why: _Optional[str] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("terms", "g_co2", "sla_risk", "congestion", "runner_up", "note")
    TERMS_FIELD_NUMBER: _ClassVar[int]
    G_CO2_FIELD_NUMBER: _ClassVar[int]
    SLA_RISK_FIELD_NUMBER: _ClassVar[int]
    CONGESTION_FIELD_NUMBER: _ClassVar[int]
    RUNNER_UP_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    terms: _containers.RepeatedCompositeFieldContainer[Figure]
    g_co2: float
    sla_risk: float
    congestion: float
    runner_up: Alternative
    note: str
    def __init__(self, terms: _Optional[_Iterable[_Union[Figure, _Mapping]]] = ..., g_co2: _Optional[float] = ..., sla_risk: _Optional[float] = ..., congestion: _Optional[float] = ..., runner_up: _Optional[_Union[Alternative, _Mapping]] = ..., note: _Optional[str] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("workload", "site", "attempt", "instances", "resume_share", "start_ns", "explanation", "makes_room")
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    RESUME_SHARE_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    MAKES_ROOM_FIELD_NUMBER: _ClassVar[int]
    workload: Workload
    site: Site
    attempt: int
    instances: int
    resume_share: float
    start_ns: int
    explanation: Explanation
    makes_room: bool
    def __init__(self, workload: _Optional[_Union[Workload, _Mapping]] = ..., site: _Optional[_Union[Site, _Mapping]] = ..., attempt: _Optional[int] = ..., instances: _Optional[int] = ..., resume_share: _Optional[float] = ..., start_ns: _Optional[int] = ..., explanation: _Optional[_Union[Explanation, _Mapping]] = ..., makes_room: _Optional[bool] = ...) -> None: ...

class Demand(_message.Message):
    __slots__ = ("memory_bytes", "compute_tops", "bandwidth_bytes_per_s", "cpu_milli", "host_memory_bytes", "data_type", "devices", "whole")
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_TOPS_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    HOST_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    memory_bytes: int
    compute_tops: float
    bandwidth_bytes_per_s: float
    cpu_milli: int
    host_memory_bytes: int
    data_type: DataType
    devices: int
    whole: bool
    def __init__(self, memory_bytes: _Optional[int] = ..., compute_tops: _Optional[float] = ..., bandwidth_bytes_per_s: _Optional[float] = ..., cpu_milli: _Optional[int] = ..., host_memory_bytes: _Optional[int] = ..., data_type: _Optional[_Union[DataType, str]] = ..., devices: _Optional[int] = ..., whole: _Optional[bool] = ...) -> None: ...

class Sla(_message.Message):
    __slots__ = ("deadline_ns", "penalty_per_hour_late", "penalty_per_violated_minute", "penalty_cap")
    DEADLINE_NS_FIELD_NUMBER: _ClassVar[int]
    PENALTY_PER_HOUR_LATE_FIELD_NUMBER: _ClassVar[int]
    PENALTY_PER_VIOLATED_MINUTE_FIELD_NUMBER: _ClassVar[int]
    PENALTY_CAP_FIELD_NUMBER: _ClassVar[int]
    deadline_ns: int
    penalty_per_hour_late: float
    penalty_per_violated_minute: float
    penalty_cap: float
    def __init__(self, deadline_ns: _Optional[int] = ..., penalty_per_hour_late: _Optional[float] = ..., penalty_per_violated_minute: _Optional[float] = ..., penalty_cap: _Optional[float] = ...) -> None: ...

class Work(_message.Message):
    __slots__ = ("reference_s", "reference", "compute_bound")
    REFERENCE_S_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_BOUND_FIELD_NUMBER: _ClassVar[int]
    reference_s: float
    reference: str
    compute_bound: float
    def __init__(self, reference_s: _Optional[float] = ..., reference: _Optional[str] = ..., compute_bound: _Optional[float] = ...) -> None: ...

class Gang(_message.Message):
    __slots__ = ("workers", "most_workers", "growth", "checkpoint_s", "checkpoint_bytes")
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    MOST_WORKERS_FIELD_NUMBER: _ClassVar[int]
    GROWTH_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_S_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_BYTES_FIELD_NUMBER: _ClassVar[int]
    workers: int
    most_workers: int
    growth: float
    checkpoint_s: float
    checkpoint_bytes: int
    def __init__(self, workers: _Optional[int] = ..., most_workers: _Optional[int] = ..., growth: _Optional[float] = ..., checkpoint_s: _Optional[float] = ..., checkpoint_bytes: _Optional[int] = ...) -> None: ...

class Service(_message.Message):
    __slots__ = ("requests_per_s", "replica_requests_per_s", "target_latency_ms", "service_time_ms", "warm_minimum", "most_replicas", "spread", "users", "reference", "load_s", "standby", "shrink_after_s", "forgets_bursts")
    REQUESTS_PER_S_FIELD_NUMBER: _ClassVar[int]
    REPLICA_REQUESTS_PER_S_FIELD_NUMBER: _ClassVar[int]
    TARGET_LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    SERVICE_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    WARM_MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MOST_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    LOAD_S_FIELD_NUMBER: _ClassVar[int]
    STANDBY_FIELD_NUMBER: _ClassVar[int]
    SHRINK_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    FORGETS_BURSTS_FIELD_NUMBER: _ClassVar[int]
    requests_per_s: float
    replica_requests_per_s: float
    target_latency_ms: float
    service_time_ms: float
    warm_minimum: int
    most_replicas: int
    spread: int
    users: _containers.RepeatedCompositeFieldContainer[Figure]
    reference: str
    load_s: float
    standby: int
    shrink_after_s: float
    forgets_bursts: bool
    def __init__(self, requests_per_s: _Optional[float] = ..., replica_requests_per_s: _Optional[float] = ..., target_latency_ms: _Optional[float] = ..., service_time_ms: _Optional[float] = ..., warm_minimum: _Optional[int] = ..., most_replicas: _Optional[int] = ..., spread: _Optional[int] = ..., users: _Optional[_Iterable[_Union[Figure, _Mapping]]] = ..., reference: _Optional[str] = ..., load_s: _Optional[float] = ..., standby: _Optional[int] = ..., shrink_after_s: _Optional[float] = ..., forgets_bursts: _Optional[bool] = ...) -> None: ...

class Workload(_message.Message):
    __slots__ = ("id", "tenant", "kind", "demand", "submitted_ns", "team", "service_name", "priority", "pool", "work", "gang", "service", "sla", "weights", "data", "clusters", "profiles", "delay_tolerant", "preemptible", "when_cut_off")
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_NS_FIELD_NUMBER: _ClassVar[int]
    TEAM_FIELD_NUMBER: _ClassVar[int]
    SERVICE_NAME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    SLA_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    PROFILES_FIELD_NUMBER: _ClassVar[int]
    DELAY_TOLERANT_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIBLE_FIELD_NUMBER: _ClassVar[int]
    WHEN_CUT_OFF_FIELD_NUMBER: _ClassVar[int]
    id: str
    tenant: str
    kind: WorkloadKind
    demand: Demand
    submitted_ns: int
    team: str
    service_name: str
    priority: int
    pool: str
    work: Work
    gang: Gang
    service: Service
    sla: Sla
    weights: str
    data: _containers.RepeatedScalarFieldContainer[str]
    clusters: Names
    profiles: Names
    delay_tolerant: bool
    preemptible: bool
    when_cut_off: WhenCutOff
    def __init__(self, id: _Optional[str] = ..., tenant: _Optional[str] = ..., kind: _Optional[_Union[WorkloadKind, str]] = ..., demand: _Optional[_Union[Demand, _Mapping]] = ..., submitted_ns: _Optional[int] = ..., team: _Optional[str] = ..., service_name: _Optional[str] = ..., priority: _Optional[int] = ..., pool: _Optional[str] = ..., work: _Optional[_Union[Work, _Mapping]] = ..., gang: _Optional[_Union[Gang, _Mapping]] = ..., service: _Optional[_Union[Service, _Mapping]] = ..., sla: _Optional[_Union[Sla, _Mapping]] = ..., weights: _Optional[str] = ..., data: _Optional[_Iterable[str]] = ..., clusters: _Optional[_Union[Names, _Mapping]] = ..., profiles: _Optional[_Union[Names, _Mapping]] = ..., delay_tolerant: _Optional[bool] = ..., preemptible: _Optional[bool] = ..., when_cut_off: _Optional[_Union[WhenCutOff, str]] = ...) -> None: ...

class Series(_message.Message):
    __slots__ = ("values", "start_ns", "step_ns")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    START_NS_FIELD_NUMBER: _ClassVar[int]
    STEP_NS_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    start_ns: int
    step_ns: int
    def __init__(self, values: _Optional[_Iterable[float]] = ..., start_ns: _Optional[int] = ..., step_ns: _Optional[int] = ...) -> None: ...

class Tariff(_message.Message):
    __slots__ = ("currency", "device_hour", "calendar")
    class DeviceHourEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    CURRENCY_FIELD_NUMBER: _ClassVar[int]
    DEVICE_HOUR_FIELD_NUMBER: _ClassVar[int]
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    currency: str
    device_hour: _containers.ScalarMap[str, float]
    calendar: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, currency: _Optional[str] = ..., device_hour: _Optional[_Mapping[str, float]] = ..., calendar: _Optional[_Iterable[float]] = ...) -> None: ...

class NodeGroup(_message.Message):
    __slots__ = ("name", "count", "profile", "devices", "cpu_milli", "host_memory_bytes", "link_domain", "numa_domains", "base_power_w", "mode", "boot_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    CPU_MILLI_FIELD_NUMBER: _ClassVar[int]
    HOST_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    LINK_DOMAIN_FIELD_NUMBER: _ClassVar[int]
    NUMA_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    BASE_POWER_W_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    BOOT_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    count: int
    profile: str
    devices: int
    cpu_milli: int
    host_memory_bytes: int
    link_domain: int
    numa_domains: int
    base_power_w: float
    mode: ShareMode
    boot_s: float
    def __init__(self, name: _Optional[str] = ..., count: _Optional[int] = ..., profile: _Optional[str] = ..., devices: _Optional[int] = ..., cpu_milli: _Optional[int] = ..., host_memory_bytes: _Optional[int] = ..., link_domain: _Optional[int] = ..., numa_domains: _Optional[int] = ..., base_power_w: _Optional[float] = ..., mode: _Optional[_Union[ShareMode, str]] = ..., boot_s: _Optional[float] = ...) -> None: ...

class Cluster(_message.Message):
    __slots__ = ("id", "region", "provider", "cluster_class", "groups", "tariff", "carbon_g_per_kwh", "electricity_per_mwh", "pue")
    ID_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_CLASS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    TARIFF_FIELD_NUMBER: _ClassVar[int]
    CARBON_G_PER_KWH_FIELD_NUMBER: _ClassVar[int]
    ELECTRICITY_PER_MWH_FIELD_NUMBER: _ClassVar[int]
    PUE_FIELD_NUMBER: _ClassVar[int]
    id: str
    region: str
    provider: str
    cluster_class: ClusterClass
    groups: _containers.RepeatedCompositeFieldContainer[NodeGroup]
    tariff: Tariff
    carbon_g_per_kwh: Series
    electricity_per_mwh: Series
    pue: float
    def __init__(self, id: _Optional[str] = ..., region: _Optional[str] = ..., provider: _Optional[str] = ..., cluster_class: _Optional[_Union[ClusterClass, str]] = ..., groups: _Optional[_Iterable[_Union[NodeGroup, _Mapping]]] = ..., tariff: _Optional[_Union[Tariff, _Mapping]] = ..., carbon_g_per_kwh: _Optional[_Union[Series, _Mapping]] = ..., electricity_per_mwh: _Optional[_Union[Series, _Mapping]] = ..., pue: _Optional[float] = ...) -> None: ...

class ClassPolicy(_message.Message):
    __slots__ = ("cost_weight", "carbon_per_tonne", "sla_weight", "locality_weight", "defer", "migrate", "preempt", "migration_threshold", "migration_share", "cool_down_ns", "minimum_runtime_ns")
    COST_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    CARBON_PER_TONNE_FIELD_NUMBER: _ClassVar[int]
    SLA_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    LOCALITY_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    DEFER_FIELD_NUMBER: _ClassVar[int]
    MIGRATE_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_FIELD_NUMBER: _ClassVar[int]
    MIGRATION_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    MIGRATION_SHARE_FIELD_NUMBER: _ClassVar[int]
    COOL_DOWN_NS_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_RUNTIME_NS_FIELD_NUMBER: _ClassVar[int]
    cost_weight: float
    carbon_per_tonne: float
    sla_weight: float
    locality_weight: float
    defer: bool
    migrate: bool
    preempt: bool
    migration_threshold: float
    migration_share: float
    cool_down_ns: int
    minimum_runtime_ns: int
    def __init__(self, cost_weight: _Optional[float] = ..., carbon_per_tonne: _Optional[float] = ..., sla_weight: _Optional[float] = ..., locality_weight: _Optional[float] = ..., defer: _Optional[bool] = ..., migrate: _Optional[bool] = ..., preempt: _Optional[bool] = ..., migration_threshold: _Optional[float] = ..., migration_share: _Optional[float] = ..., cool_down_ns: _Optional[int] = ..., minimum_runtime_ns: _Optional[int] = ...) -> None: ...

class CongestionRules(_message.Message):
    __slots__ = ("damping", "most_change", "pinned", "frozen", "enabled")
    class PinnedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    DAMPING_FIELD_NUMBER: _ClassVar[int]
    MOST_CHANGE_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    damping: float
    most_change: float
    pinned: _containers.ScalarMap[str, float]
    frozen: bool
    enabled: bool
    def __init__(self, damping: _Optional[float] = ..., most_change: _Optional[float] = ..., pinned: _Optional[_Mapping[str, float]] = ..., frozen: _Optional[bool] = ..., enabled: _Optional[bool] = ...) -> None: ...

class FleetPolicy(_message.Message):
    __slots__ = ("training", "batch", "serving", "congestion", "adapt_latency", "adapt_locality", "locality", "defer", "migrate", "forecast", "carbon_budget_g", "period_ns", "submissions_ns", "most_moves", "most_preemptions", "reclaim_after_ns", "dry_run", "local_moves_at_once", "local_moves_per_hour", "period_start_ns")
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    CONGESTION_FIELD_NUMBER: _ClassVar[int]
    ADAPT_LATENCY_FIELD_NUMBER: _ClassVar[int]
    ADAPT_LOCALITY_FIELD_NUMBER: _ClassVar[int]
    LOCALITY_FIELD_NUMBER: _ClassVar[int]
    DEFER_FIELD_NUMBER: _ClassVar[int]
    MIGRATE_FIELD_NUMBER: _ClassVar[int]
    FORECAST_FIELD_NUMBER: _ClassVar[int]
    CARBON_BUDGET_G_FIELD_NUMBER: _ClassVar[int]
    PERIOD_NS_FIELD_NUMBER: _ClassVar[int]
    SUBMISSIONS_NS_FIELD_NUMBER: _ClassVar[int]
    MOST_MOVES_FIELD_NUMBER: _ClassVar[int]
    MOST_PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    RECLAIM_AFTER_NS_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    LOCAL_MOVES_AT_ONCE_FIELD_NUMBER: _ClassVar[int]
    LOCAL_MOVES_PER_HOUR_FIELD_NUMBER: _ClassVar[int]
    PERIOD_START_NS_FIELD_NUMBER: _ClassVar[int]
    training: ClassPolicy
    batch: ClassPolicy
    serving: ClassPolicy
    congestion: CongestionRules
    adapt_latency: bool
    adapt_locality: bool
    locality: bool
    defer: bool
    migrate: bool
    forecast: bool
    carbon_budget_g: float
    period_ns: int
    submissions_ns: int
    most_moves: int
    most_preemptions: int
    reclaim_after_ns: int
    dry_run: bool
    local_moves_at_once: int
    local_moves_per_hour: int
    period_start_ns: int
    def __init__(self, training: _Optional[_Union[ClassPolicy, _Mapping]] = ..., batch: _Optional[_Union[ClassPolicy, _Mapping]] = ..., serving: _Optional[_Union[ClassPolicy, _Mapping]] = ..., congestion: _Optional[_Union[CongestionRules, _Mapping]] = ..., adapt_latency: _Optional[bool] = ..., adapt_locality: _Optional[bool] = ..., locality: _Optional[bool] = ..., defer: _Optional[bool] = ..., migrate: _Optional[bool] = ..., forecast: _Optional[bool] = ..., carbon_budget_g: _Optional[float] = ..., period_ns: _Optional[int] = ..., submissions_ns: _Optional[int] = ..., most_moves: _Optional[int] = ..., most_preemptions: _Optional[int] = ..., reclaim_after_ns: _Optional[int] = ..., dry_run: _Optional[bool] = ..., local_moves_at_once: _Optional[int] = ..., local_moves_per_hour: _Optional[int] = ..., period_start_ns: _Optional[int] = ...) -> None: ...

class Budget(_message.Message):
    __slots__ = ("money", "carbon_g")
    MONEY_FIELD_NUMBER: _ClassVar[int]
    CARBON_G_FIELD_NUMBER: _ClassVar[int]
    money: float
    carbon_g: float
    def __init__(self, money: _Optional[float] = ..., carbon_g: _Optional[float] = ...) -> None: ...

class Team(_message.Message):
    __slots__ = ("name", "budget")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    name: str
    budget: Budget
    def __init__(self, name: _Optional[str] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ...) -> None: ...

class FleetTenant(_message.Message):
    __slots__ = ("id", "weight", "priority", "budget", "teams")
    ID_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    TEAMS_FIELD_NUMBER: _ClassVar[int]
    id: str
    weight: float
    priority: int
    budget: Budget
    teams: _containers.RepeatedCompositeFieldContainer[Team]
    def __init__(self, id: _Optional[str] = ..., weight: _Optional[float] = ..., priority: _Optional[int] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., teams: _Optional[_Iterable[_Union[Team, _Mapping]]] = ...) -> None: ...

class VNodePool(_message.Message):
    __slots__ = ("id", "tenant", "profile", "template", "mode", "clusters", "guaranteed", "lendable", "maximum", "dedicated")
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    GUARANTEED_FIELD_NUMBER: _ClassVar[int]
    LENDABLE_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    DEDICATED_FIELD_NUMBER: _ClassVar[int]
    id: str
    tenant: str
    profile: str
    template: str
    mode: ShareMode
    clusters: Names
    guaranteed: int
    lendable: int
    maximum: int
    dedicated: bool
    def __init__(self, id: _Optional[str] = ..., tenant: _Optional[str] = ..., profile: _Optional[str] = ..., template: _Optional[str] = ..., mode: _Optional[_Union[ShareMode, str]] = ..., clusters: _Optional[_Union[Names, _Mapping]] = ..., guaranteed: _Optional[int] = ..., lendable: _Optional[int] = ..., maximum: _Optional[int] = ..., dedicated: _Optional[bool] = ...) -> None: ...

class Allotment(_message.Message):
    __slots__ = ("pool", "cluster", "units", "lent", "revision", "until_ns")
    POOL_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    UNITS_FIELD_NUMBER: _ClassVar[int]
    LENT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UNTIL_NS_FIELD_NUMBER: _ClassVar[int]
    pool: str
    cluster: str
    units: int
    lent: int
    revision: int
    until_ns: int
    def __init__(self, pool: _Optional[str] = ..., cluster: _Optional[str] = ..., units: _Optional[int] = ..., lent: _Optional[int] = ..., revision: _Optional[int] = ..., until_ns: _Optional[int] = ...) -> None: ...

"""The second layer of the fleet: jobs, clusters, sites, prices, and how well the centre does."""

from dure.domain.metrics.kinds import counter, gauge, histogram

HTTP_ANSWERS = counter("dure_http_answers_total", "Answers to requests.", "method", "status")
JOBS = gauge("dure_jobs", "Jobs by phase.", "phase")
EVENTS = counter("dure_events_total", "Things that happened in the fleet.")
LEADS = gauge("dure_leads", "1 where this server plans.")
LEADER_EPOCH = gauge("dure_leader_epoch", "Times the lead was taken, at the server that leads.")

JOB_PLACED = histogram("dure_job_placement_seconds", "From a job's submission to its place.")
JOB_STARTED = histogram("dure_job_start_seconds", "From a job's submission until all of it runs.")
JOB_OLDEST = gauge("dure_job_oldest_waiting_seconds", "Age of the oldest job without a place.")

ROUND_SECONDS = histogram("dure_planner_round_seconds", "Length of the planner's rounds.")
PLANNER_BEHIND = gauge(
    "dure_planner_events_behind", "Things that happened and are not taken in by the planner."
)
CLUSTER_STATE = gauge("dure_cluster_state", "State of a cluster; always 1.", "cluster", "state")
CLUSTER_LINKED = gauge("dure_cluster_linked", "1 while some server has a link to it.", "cluster")
CLUSTER_SILENT = gauge("dure_cluster_silent_seconds", "Since its last word.", "cluster")
CLUSTER_LAG = gauge(
    "dure_cluster_reconcile_lag_seconds",
    "For how long it has not accepted the plan that the centre made last.",
    "cluster",
)
CLUSTER_BEHIND = gauge("dure_cluster_plans_behind", "Plans it has not accepted.", "cluster")
ATTEMPTS = gauge(
    "dure_attempts", "Attempts of jobs that are not gone, by state.", "cluster", "state"
)
DRIFT = gauge(
    "dure_cluster_drift_attempts",
    "Attempts that shall run and do not, or shall be gone and are not.",
    "cluster",
)
_SITE = ("cluster", "site")
SITE_DEVICES = gauge("dure_site_devices", "Devices of a site.", *_SITE)
SITE_FREE = gauge("dure_site_free_devices", "Devices with nothing on them.", *_SITE)
SITE_WAITING = gauge("dure_site_waiting_devices", "Devices asked for by orders there.", *_SITE)
SITE_FRAGMENTATION = gauge(
    "dure_site_fragmentation_ratio", "Free capacity that expected demand cannot use.", *_SITE
)
SITE_PRICE = gauge(
    "dure_site_congestion_price", "What others' wish adds to a device-hour there.", "site"
)
BUDGET_SPENT = gauge("dure_budget_spent", "In its unit.", "tenant", "budget", "unit")
BUDGET_LIMIT = gauge("dure_budget_limit", "In its unit.", "tenant", "budget", "unit")
LINKS = gauge("dure_links", "Members that this server has a link to.")
BUS_UP = gauge("dure_bus_up", "1 while the bus carries hints.")
STORE_SECONDS = gauge("dure_store_read_seconds", "Time to read what is shown here.")

FLEET = (
    *(HTTP_ANSWERS, JOBS, EVENTS, LEADS, LEADER_EPOCH, JOB_PLACED, JOB_STARTED, JOB_OLDEST),
    *(ROUND_SECONDS, PLANNER_BEHIND, CLUSTER_STATE, CLUSTER_LINKED, CLUSTER_SILENT, CLUSTER_LAG),
    *(CLUSTER_BEHIND, ATTEMPTS, DRIFT, SITE_DEVICES, SITE_FREE, SITE_WAITING, SITE_FRAGMENTATION),
    *(SITE_PRICE, BUDGET_SPENT, BUDGET_LIMIT, LINKS, BUS_UP, STORE_SECONDS),
)

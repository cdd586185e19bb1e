"""Says what machine and software a recording was made on."""

import datetime
import subprocess
from typing import Any

import torch

DRIVER_QUERY = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]


def machine() -> dict[str, Any]:
    gpu = torch.cuda.get_device_properties(0)
    driver = subprocess.run(DRIVER_QUERY, capture_output=True, text=True, check=False)
    return {
        "gpu": gpu.name,
        "sm_count": gpu.multi_processor_count,
        "memory_bytes": gpu.total_memory,
        "driver": driver.stdout.strip(),
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }

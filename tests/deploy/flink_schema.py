"""The part of the Flink Kubernetes operator's FlinkDeployment (v1beta1) that we use, as a check.

Written down from the operator's reference of the custom resource: names, types and words that it
takes; the pods inside are checked as Kubernetes' own PodTemplateSpec by the caller. A field that is
not listed is a mistake here, even if the operator knows it.
"""

from __future__ import annotations

from typing import Any

TEXT = {"type": "string"}
POD = {"type": "object", "required": ["spec"]}
RESOURCE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["memory", "cpu"],
    "properties": {
        "cpu": {"type": "number", "exclusiveMinimum": 0},
        # Flink's own sizes, not those of Kubernetes: 2048m is megabytes.
        "memory": {"type": "string", "pattern": r"^\d+(b|k|kb|m|mb|g|gb|Mi|Gi)$"},
    },
}
MANAGER = {
    "type": "object",
    "additionalProperties": False,
    "required": ["resource", "replicas"],
    "properties": {
        "replicas": {"type": "integer", "minimum": 1},
        "resource": RESOURCE,
        "podTemplate": POD,
    },
}

FLINK_DEPLOYMENT: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "flink.apache.org/v1beta1"},
        "kind": {"const": "FlinkDeployment"},
        "metadata": {"type": "object", "required": ["name", "namespace"]},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["image", "flinkVersion", "serviceAccount", "jobManager", "taskManager"],
            "properties": {
                "image": TEXT,
                "imagePullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
                "flinkVersion": {"enum": ["v1_19", "v1_20", "v2_0", "v2_1", "v2_2"]},
                "mode": {"enum": ["native", "standalone"]},
                "serviceAccount": TEXT,
                "flinkConfiguration": {"type": "object", "additionalProperties": TEXT},
                "podTemplate": POD,
                "jobManager": MANAGER,
                "taskManager": MANAGER,
            },
        },
    },
}

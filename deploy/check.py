#!/usr/bin/env python3
"""Check the manifests of this folder against the schemas of their kinds.

  check.py CRD.yaml...

The schemas are the operators' own CustomResourceDefinitions:
  kubernetes-sigs/jobset   config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml
  kubeflow/mpi-operator    manifests/base/kubeflow.org_mpijobs.yaml
  kubeflow/trainer         manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml
A field that a schema does not know is an error, as with kubectl apply --validate=strict.
Needs PyYAML and jsonschema.
"""
import copy, glob, os, sys

import jsonschema
import yaml


def strict(s):
    """Refuse unknown fields, and take numbers where Kubernetes takes numbers or strings."""
    if isinstance(s, dict):
        if s.pop('x-kubernetes-int-or-string', False):
            s.pop('type', None)
            s['anyOf'] = [{'type': 'integer'}, {'type': 'string'}]
        if 'properties' in s and not s.get('x-kubernetes-preserve-unknown-fields') and 'additionalProperties' not in s:
            s['additionalProperties'] = False
        for k, v in s.items():
            if k in ('properties',):
                for x in v.values():
                    strict(x)
            elif k not in ('default', 'enum', 'example', 'anyOf'):
                strict(v)
    elif isinstance(s, list):
        for x in s:
            strict(x)


kinds = {}
for path in sys.argv[1:]:
    for crd in yaml.safe_load_all(open(path)):
        for v in crd['spec']['versions']:
            schema = copy.deepcopy(v['schema']['openAPIV3Schema'])
            schema['properties']['metadata'] = {'type': 'object', 'required': ['name']}
            strict(schema)
            schema['properties']['metadata'] = {'type': 'object', 'required': ['name']}
            kinds['%s/%s' % (crd['spec']['group'], v['name']), crd['spec']['names']['kind']] = schema
bad = 0
for path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), '*.yaml'))):
    for doc in yaml.safe_load_all(open(path)):
        schema = kinds.get((doc['apiVersion'], doc['kind']))
        if schema is None:
            print('%s: no schema of %s %s was given' % (os.path.basename(path), doc['apiVersion'], doc['kind']))
            bad += 1
            continue
        errors = list(jsonschema.Draft7Validator(schema).iter_errors(doc))
        for e in errors:
            print('%s: %s: %s' % (os.path.basename(path), '.'.join(map(str, e.absolute_path)), e.message[:300]))
        bad += len(errors)
        if not errors:
            print('%s: a %s of %s' % (os.path.basename(path), doc['kind'], doc['apiVersion']))
sys.exit(bad > 0)

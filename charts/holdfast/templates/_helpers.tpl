{{- define "holdfast.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "holdfast.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "holdfast.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Names of what has no namespace: releases of one name in two namespaces must not share it. */}}
{{- define "holdfast.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "holdfast.fullname" .) -}}
{{- end -}}

{{- define "holdfast.selectorLabels" -}}
app.kubernetes.io/name: {{ include "holdfast.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{/* Of the page's pod. */}}
{{- define "holdfast.uiLabels" -}}
app.kubernetes.io/name: {{ include "holdfast.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: ui
{{- end -}}

{{- define "holdfast.uiName" -}}
{{- printf "%s-ui" (include "holdfast.fullname" . | trunc 60 | trimSuffix "-") -}}
{{- end -}}

{{- define "holdfast.uiAccount" -}}
{{- if .Values.ui.serviceAccount.create -}}
{{- default (include "holdfast.uiName" .) .Values.ui.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.ui.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Of everything but the operator's pods, so that no Service or NetworkPolicy takes it for one. */}}
{{- define "holdfast.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ include "holdfast.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: holdfast
{{- end -}}

{{- define "holdfast.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "holdfast.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Of (dict "image" VALUES "chart" .Chart). */}}
{{- define "holdfast.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (default .chart.AppVersion .image.tag) -}}
{{- end -}}
{{- end -}}

{{/* A JSON object, as a template can give text only. */}}
{{- define "holdfast.appNamespaces" -}}
{{- $watched := default (list .Release.Namespace) .Values.watchNamespaces -}}
{{- range .Values.appNamespaces -}}
{{- if and $.Values.watchNamespaces (not (has . $.Values.watchNamespaces)) -}}
{{- fail (printf "appNamespaces names %s, which watchNamespaces does not: nothing would look at apps there" .) -}}
{{- end -}}
{{- end -}}
{{- dict "names" (default $watched .Values.appNamespaces | uniq | sortAlpha) | toJson -}}
{{- end -}}

{{/* Whoever may make pods, may take what the pods' namespace has: all security contexts are the same. */}}
{{- define "holdfast.podSecurity" -}}
runAsNonRoot: true
{{- if not (kindIs "invalid" .Values.runAsUser) }}
runAsUser: {{ int64 .Values.runAsUser }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "holdfast.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Rules of a NetworkPolicy: names, and the API server. */}}
{{- define "holdfast.egressToApiServer" -}}
# Names, at any address that has this port: pods of DNS, a cache on the node, or a server outside.
- ports:
    {{- range .Values.networkPolicy.dnsPorts }}
    - {protocol: UDP, port: {{ . }}}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
# The API server; without apiServerCidrs whatever has its ports, as a chart can't know where it is.
- ports:
    {{- range .Values.networkPolicy.apiServerPorts }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- with .Values.networkPolicy.apiServerCidrs }}
  to:
    {{- range . }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
  {{- end }}
{{- end -}}

{{/* Namespace -> what its apps get that do not say it, with an empty name for all others; as JSON, or nothing. */}}
{{- define "holdfast.appDefaults" -}}
{{- $all := dict -}}
{{- range $namespace, $values := merge (dict "" .Values.apps.defaults) .Values.apps.namespaceDefaults -}}
{{- $fields := dict -}}
{{- with $values.checkpoint }}{{ $_ := set $fields "checkpoint" . }}{{ end -}}
{{- with $values.storageClass }}{{ $_ := set $fields "storageClass" . }}{{ end -}}
{{- if and $fields.checkpoint (not (or $fields.checkpoint.location $fields.checkpoint.claim)) -}}
{{- fail (printf "apps: a checkpoint%s has location or claim" (ternary "" (printf " of %s" $namespace) (eq $namespace ""))) -}}
{{- end -}}
{{- if $fields }}{{ $_ := set $all $namespace $fields }}{{ end -}}
{{- end -}}
{{- if $all }}{{ toJson $all }}{{ end -}}
{{- end }}

{{/*
Of (dict "root" . "account" NAME "args" LIST): a pod that runs files/hooks.py once. What it is to do is the first of the
arguments, and the folder of its token comes after it.
*/}}
{{- define "holdfast.hookPod" -}}
{{- $tokens := "/var/run/secrets/kubernetes.io/serviceaccount" -}}
{{- $args := concat (list (first .args) $tokens) (rest .args) -}}
{{- with .root -}}
serviceAccountName: {{ $.account }}
automountServiceAccountToken: true
enableServiceLinks: false
restartPolicy: Never
activeDeadlineSeconds: 180
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  {{- include "holdfast.podSecurity" . | nindent 2 }}
containers:
  - name: hook
    image: {{ include "holdfast.image" (dict "image" .Values.image "chart" .Chart) | quote }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command:
      - python
      - -c
      - {{ .Files.Get "files/hooks.py" | toJson }}
    args:
      {{- toYaml $args | nindent 6 }}
    resources:
      requests: {cpu: 10m, memory: 32Mi}
      limits: {memory: 128Mi}
    securityContext:
      {{- include "holdfast.containerSecurity" . | nindent 6 }}
    terminationMessagePolicy: FallbackToLogsOnError
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}
{{/* What NetworkPolicies of apps admit, as the operator reads it. */}}
{{- define "holdfast.appNetwork" -}}
{{- $cluster := .Values.networkPolicy -}}
{{- $apps := .Values.apps.networkPolicy -}}
{{- $server := list -}}
{{- range $cluster.apiServerCidrs }}{{ $server = append $server (dict "ipBlock" (dict "cidr" .)) }}{{ end -}}
{{- $ingress := $apps.extraIngress -}}
{{- if .Values.metrics.podMonitor.enabled -}}
{{- $scrape := dict "ports" (list (dict "protocol" "TCP" "port" 9404)) -}}
{{- with $cluster.metricsFrom }}{{ $_ := set $scrape "from" . }}{{ end -}}
{{- $ingress = append $ingress $scrape -}}
{{- end -}}
{{- dict
  "dns_ports" $cluster.dnsPorts "api_server_ports" $cluster.apiServerPorts "api_server" $server
  "kafka_ports" $cluster.kafkaPorts "brokers" $cluster.brokers "stores" $apps.stores
  "open" (eq $apps.egress "open") "ingress" $ingress "egress" $apps.extraEgress | toJson -}}
{{- end }}

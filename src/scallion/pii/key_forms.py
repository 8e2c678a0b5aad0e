"""How the keys of services look: what they begin with, and the pattern of what follows.

Lengths are least lengths, as services make their keys longer over time. What is only words is no key
(`sk-learn-and-its-friends`): most forms ask for a digit, or for letters of both cases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LEFT = r"(?<![A-Za-z0-9])"
HAS_DIGIT = r"(?=[A-Za-z_-]{0,200}(?:[0-9]|[a-z][A-Z]))"
DASHED = "[A-Za-z0-9_-]"
PASSWORD = r"\w.+/=!@#$%&*~\-"

FORMS = {
    # OpenAI, Anthropic, OpenRouter, DeepSeek, Langfuse
    "sk-": rf"{HAS_DIGIT}{DASHED}{{20,}}",
    # Google
    "AIza": rf"{DASHED}{{30,}}",
    "GOCSPX- ya29.": rf"{DASHED}{{20,}}",
    # AWS
    "AKIA ASIA ABIA ACCA": r"[A-Z0-9]{12,}(?![a-z0-9])",
    # GitHub, GitLab
    "ghp_ gho_ ghu_ ghs_ ghr_": r"[A-Za-z0-9]{30,}",
    "github_pat_": r"[A-Za-z0-9_]{36,}",
    "glpat- glptt- gldt- glrt- glcbt- glft- gloas- glsoat- glagent- glimt-": r"[A-Za-z0-9_.-]{16,}",
    # Slack
    "xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xoxe.xoxp- xapp-": rf"{HAS_DIGIT}{DASHED}{{16,}}",
    # Stripe
    "sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ sk_prod_ rk_prod_": r"[A-Za-z0-9]{10,}",
    "whsec_": r"[A-Za-z0-9+/=]{24,}",
    # Hugging Face, Groq, npm, Perplexity, Replicate, Linear, Notion, Fireworks
    "hf_ gsk_ npm_ pplx- r8_ pcsk_ lin_api_ ntn_": r"[A-Za-z0-9]{30,}",
    "api_org_ secret_ fw_ tok_": rf"{HAS_DIGIT}[A-Za-z0-9_]{{30,}}",
    "sk_": rf"{HAS_DIGIT}[A-Za-z0-9]{{32,}}",
    # PyPI, Tavily, xAI, NVIDIA, Docker, Figma, Grafana, Vault, Jina, Supabase, Sentry, Tailscale and others
    """pypi- tvly- xai- nvapi- dckr_pat_ figd_ glsa_ glc_ hvs. hvb. jina_ sb_secret_ sntrys_ sntryu_ tskey-auth-
    tskey-api- e2b_ ATATT3 dp.pt. PMAK- pa- sq0atp- sq0csp- lsv2_pt_ lsv2_sk_ ls__ AGE-SECRET-KEY-1 NRAK- HRKU-""": (
        rf"{HAS_DIGIT}[A-Za-z0-9_.=-]{{19,}}[A-Za-z0-9_=-]"
    ),
    # Twilio, Shopify, Mailgun, Databricks
    "SK shpat_ shpss_ shpca_ shppa_ key- dapi": "[0-9a-f]{32}(?![A-Za-z0-9])",
    # Supabase, Pulumi, RubyGems, DigitalOcean
    "sbp_ pul-": "[0-9a-f]{40}(?![A-Za-z0-9])",
    "rubygems_": "[0-9a-f]{48}(?![A-Za-z0-9])",
    "dop_v1_ doo_v1_ dor_v1_": "[0-9a-f]{64}(?![A-Za-z0-9])",
    # SendGrid
    "SG.": rf"{DASHED}{{16,}}\.{DASHED}{{16,}}",
    # Alibaba, Tencent
    "LTAI": rf"{HAS_DIGIT}[A-Za-z0-9]{{12,}}",
    "AKID": rf"{HAS_DIGIT}[A-Za-z0-9]{{24,}}",
    # JSON web tokens
    "eyJ": rf"(?<![A-Za-z0-9_-]eyJ){DASHED}{{8,}}\.{DASHED}{{8,}}\.{DASHED}*(?:\.{DASHED}+){{0,2}}",
    # connection strings
    "AccountKey= SharedAccessKey= SharedAccessSignature= accesskey=": r"[A-Za-z0-9+/%&=:.-]{20,}",
}
PASSWORDS = "Password= password= PASSWORD= Pwd= pwd= PWD="


def key_forms() -> Iterator[tuple[str, re.Pattern[str]]]:
    """What a form begins with, and its pattern."""
    for beginnings, rest in FORMS.items():
        yield from ((begin, re.compile(rf"{LEFT}{re.escape(begin)}{rest}")) for begin in beginnings.split())
    for begin in PASSWORDS.split():  # between others in a connection string, or the first of them
        yield begin, re.compile(rf"{LEFT}{begin}(?:(?<=;{begin})[{PASSWORD}]+|[{PASSWORD}]{{1,128}}(?=;))")
